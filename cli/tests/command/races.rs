//! The race proof from the command line.

use crate::common::{json_of, lab, message_of, stdout_of};

#[test]
fn a_protocol_that_holds() {
    let run = "races --protocols batched-locked --memory anon --against stale-writer,io-error";
    let text = stdout_of(run, 0);
    assert!(text.contains("batched-locked holds for anon"), "{text}");
    let json = json_of(&format!("{run} --json -")[..], 0);
    assert_eq!(json["protocols"][0]["holds"], true);
    assert_eq!(json["protocols"][0]["memory"], "anon");
    let run = &json["protocols"][0]["runs"][0];
    assert_eq!(run["against"][1], "io-error");
    assert!(run["states"].as_u64() > Some(100));
}

#[test]
fn a_planted_bug_shows_and_that_is_exit_code_1() {
    let text = stdout_of("races --plant io-before-flush-unbatched", 1);
    assert!(text.contains("device: copies frame 0"), "{text}");
    assert!(text.contains("a store to page 0 is lost"), "{text}");
    let run = "races --plant no-flush --json -";
    let json = json_of(run, 1);
    let steps = &json["plants"][0]["counterexample"]["steps"];
    assert!(steps.as_array().is_some_and(|s| s.len() > 3), "{json}");
    assert_eq!(lab(run).stdout, lab(run).stdout, "no time in the JSON");
}

#[test]
fn names_are_guessed() {
    for (arguments, part) in [
        ("races --plant itm-8", "did you mean 'item-8'"),
        ("races --protocols batched-v3", "did you mean 'batched-v"),
        ("races --memory shmm", "did you mean 'shmem'"),
        ("races --against stale", "did you mean 'stale-writer'"),
        (
            "races --against pin,pin,pin,pin",
            "at most 3 adversaries at once",
        ),
    ] {
        let said = message_of(arguments, 2);
        assert!(said.contains(part), "{said}");
    }
    let list = stdout_of("races --list", 0);
    for name in ["unbatched", "anon", "truncation", "kept-unflushed"] {
        assert!(list.contains(name), "{list}");
    }
}
