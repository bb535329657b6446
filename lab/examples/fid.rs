//! temporary
use coldset_lab::fidelity::{compare::*, Case, Reference};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let r = Reference::embedded().unwrap();
    for case in Case::ALL {
        if args.len() > 1 && !case.name().starts_with(&args[1]) { continue; }
        let trace = trace_of(case.sequence());
        for p in POLICIES {
            if args.len() > 2 && p.recorded != args[2] { continue; }
            let phases = args.get(3).and_then(|s| s.parse().ok()).unwrap_or(1);
            match compare(&r, case, &trace, p, phases) {
                Ok(Some(c)) => {
                    println!("{} {}", case.name(), p.recorded);
                    for k in &c.counters {
                        if k.ours == 0.0 && k.kernel == 0.0 { continue; }
                        println!("   {:28} {:>10.0} {:>10.0} {:>8}  (kernel spread {:.2}%)", k.name, k.ours, k.kernel,
                            k.error.map_or("-".into(), |e| format!("{:+.2}%", e*100.0)), k.kernel_spread*100.0);
                    }
                    if args.len() > 4 { for s in &c.first.series { let g=|n:&str| s.counters.iter().find(|c| c.0==n).map_or(0,|c| c.1);
                        println!("     {} gen {:?} refault {} scan {} act {} ia {} aa {} if {} af {} kern {} dirty {}", s.access, s.generations, g("workingset_refault_file"), g("pgscan"), g("pgactivate"), g("inactive_anon"), g("active_anon"), g("inactive_file"), g("active_file"), g("kernel_pages"), g("file_dirty")); } }
                }
                Ok(None) => {}
                Err(e) => println!("{} {}: {e}", case.name(), p.recorded),
            }
        }
    }
}
