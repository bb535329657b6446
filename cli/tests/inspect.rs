//! What the lists hold, from the command line.

mod common;

use common::{json_of, message_of, sample, stdout_of};

#[test]
fn generations_and_lists_at_a_point() {
    let run = "inspect SAMPLE --variants base,classic --at 20000";
    let text = stdout_of(run, 0);
    assert!(text.contains("base: after 20000 accesses"), "{text}");
    assert!(text.contains("seq     age ms"), "{text}");
    // Nobody is charged to the root; nothing has been evicted yet, so there are no tiers to show.
    assert!(
        text.contains("memcg     0\n node     0\n   empty\n"),
        "{text}"
    );
    let small = "inspect SAMPLE --at 20000 --memory 6%";
    let text_small = stdout_of(small, 0);
    assert!(
        text_small.contains("anon tier 0: refaulted"),
        "{text_small}"
    );
    assert!(text.contains("inactive_file"), "{text}");
    let json = json_of(&format!("{run} --json -")[..], 0);
    // The root is memcg 0; the limited one comes after it.
    let gens = json[0]["lruvecs"][1]["generations"].as_array().unwrap();
    assert!((2..=4).contains(&gens.len()), "{gens:?}");
    assert!(gens.iter().any(|g| g["anon"].as_u64() > Some(0)));
    assert_eq!(json[1]["lruvecs"][1]["lists"][2][0], "inactive_file");
}

#[test]
fn commands_age_and_evict() {
    let s = sample();
    let run = |more: &[&str], code| {
        let all = [&["inspect", &s, "--at", "20000", "--json", "-"], more].concat();
        let json = json_of(&all, code);
        json[0]["lruvecs"][1]["generations"].clone()
    };
    let seqs = |g: &serde_json::Value| -> Vec<u64> {
        let all = g.as_array().unwrap();
        all.iter().map(|g| g["seq"].as_u64().unwrap()).collect()
    };
    let pages = |g: &serde_json::Value| -> u64 {
        let all = g.as_array().unwrap();
        all.iter().filter_map(|g| g["anon"].as_u64()).sum()
    };
    let plain = run(&[], 0);
    let youngest = *seqs(&plain).last().unwrap();
    let aged = run(&["--age", "2"], 0);
    assert_eq!(*seqs(&aged).last().unwrap(), youngest + 2);
    assert_eq!(pages(&aged), pages(&plain));
    let upto = format!("{youngest}:100000");
    let evicted = run(&["--age", "2", "--evict", &upto], 0);
    assert!(seqs(&evicted)[0] > youngest, "{evicted}");
    assert!(pages(&evicted) < pages(&aged) / 2, "{evicted}");
}

#[test]
fn mistakes_take_one_line() {
    let s = sample();
    for (more, part) in [
        (&["--evict", "3"][..], "for example 3:1000"),
        (&["--at", "100000000000"], "beyond the end"),
        (&["--evict", "1000:5"], "cannot be evicted"),
        (
            &["--variants", "classic", "--age", "1"],
            "use a multi-gen variant",
        ),
    ] {
        let said = message_of(&[&["inspect", &s], more].concat(), 2);
        assert!(said.contains(part), "{said}");
    }
}
