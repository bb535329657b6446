//! temporary
use coldset_lab::experiments::*;
use coldset_lab::report::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let e = EXPERIMENTS.iter().find(|e| e.name == args[1]).unwrap();
    let seeds: u64 = args.get(2).map_or(1, |s| s.parse().unwrap());
    let mut rs = vec![];
    let names: Vec<String> = args
        .get(3)
        .map_or(vec![e.before.into(), e.after.into()], |s| {
            s.split(',').map(String::from).collect()
        });
    let params: Vec<(String, String)> = args
        .iter()
        .skip(4)
        .map(|p| {
            let (a, b) = p.split_once('=').unwrap();
            (a.into(), b.into())
        })
        .collect();
    for v in &names {
        for seed in 1..=seeds {
            let mut parts = v.split('+');
            let mut sw = coldset_engine::presets::preset(parts.next().unwrap()).unwrap();
            for p in parts {
                sw.assign(p).unwrap();
            }
            let t = std::time::Instant::now();
            let scale = params
                .iter()
                .find(|p| p.0 == "scale")
                .map_or(e.scale, |p| p.1.parse().unwrap());
            let r = (e.run)(&RunInput {
                variant: v.clone(),
                switches: sw,
                seed,
                scale,
                effort_permille: 1000,
                costs: {
                    let mut c = coldset_machine::Params::default();
                    for (n, v) in params.iter().filter(|p| p.0.ends_with("_ns")) {
                        c.set(n, v.parse().unwrap()).unwrap();
                    }
                    c
                },
                params: params
                    .iter()
                    .filter(|p| p.0 != "scale" && !p.0.ends_with("_ns"))
                    .cloned()
                    .collect(),
            })
            .unwrap();
            eprintln!("{v} {seed} {:?}", t.elapsed());
            rs.push(r);
        }
    }
    let res = ExperimentResult::collect(
        Header {
            experiment: e.name.into(),
            scale: format!("1/{}", e.scale),
            effort: "1".into(),
            parameters: Default::default(),
        },
        &rs,
        &(e.claims)(&names[0], names.last().unwrap()),
    );
    match res {
        Ok(r) => println!("{}", render_text(&r, Style::Plain)),
        Err(e) => println!("{e}"),
    }
}
