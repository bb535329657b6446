use coldset_races::*;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let sets = |n: usize| -> Vec<Vec<Adversary>> {
        let mut v = vec![vec![]];
        if n > 0 { v.extend(ADVERSARIES.iter().map(|&a| vec![a])); }
        if n > 1 { for (i,&x) in ADVERSARIES.iter().enumerate() { for &y in &ADVERSARIES[i+1..] { v.push(vec![x,y]); } } }
        v
    };
    if a[1] == "p" {
        for p in PLANTS.iter().filter(|p| a.len() < 3 || p.name == a[2]) {
            let t = Instant::now();
            println!("{}{} states {:?}\n", find(p).text(), find(p).states, t.elapsed());
        }
        return;
    }
    for m in MEMORY.iter().filter(|m| a.len() < 3 || m.name == a[2]) { for p in PROTOCOLS.iter().filter(|p| a.len() < 4 || p.name == a[3]) {
        let t = Instant::now();
        let r = prove_against(*p, *m, sets(a[1].parse().unwrap()));
        println!("{} {:?}", r.text(), t.elapsed());
    }}
}
