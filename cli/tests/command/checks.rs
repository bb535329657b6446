//! `fidelity`, `run` and `fuzz`.

use crate::common::{json_of, lab, stdout_of};

#[test]
fn the_cyclic_case_is_exact() {
    let arguments = "fidelity --cases d_pread_cyc --json -";
    let json = json_of(arguments, 0);
    assert_eq!((&json["in"], &json["of"]), (&3.into(), &3.into()));
    for case in json["cases"].as_array().expect("cases") {
        let refaults = &case["counters"]["workingset_refault_file"];
        assert_eq!(refaults["ours"], 102_400, "{case}");
        assert_eq!(refaults["verdict"], "in");
        assert_eq!(case["counters"]["pgscan"]["error"], 0, "{case}");
    }
    let jobs = |n: &str| stdout_of(&format!("{arguments} --jobs {n}")[..], 0);
    assert_eq!(jobs("1"), jobs("2"));
    let text = stdout_of("fidelity --cases d_pread_cyc --policies mglru-0x7", 0);
    assert!(text.ends_with("1 of 1 cases in.\n"), "{text}");
    assert!(
        text.contains("4 within the tolerance, 0 within 32 pages"),
        "{text}"
    );
}

#[test]
fn an_experiment_is_run_judged_and_does_not_depend_on_threads() {
    let run = |jobs: &str| {
        let out = lab(&[
            "run",
            "mongodb",
            "--scale",
            "1/256",
            "--effort",
            "0.05",
            "--seeds",
            "2",
            "--jobs",
            jobs,
            "--variants",
            "base,base+flush_in_loop=on",
            "--json",
            "-",
        ]);
        // So small a run may be out of band.
        assert!(
            matches!(out.status.code(), Some(0 | 1)),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        (
            out.status.code(),
            String::from_utf8(out.stdout).expect("UTF-8"),
        )
    };
    let (code, text) = run("1");
    assert_eq!((code, text.clone()), run("2"));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["scale"], "1/256");
    assert_eq!(json["seeds"], serde_json::json!([1, 2]));
    let names: Vec<_> = json["variants"]
        .as_object()
        .expect("variants")
        .keys()
        .collect();
    assert_eq!(names, ["base", "base+flush_in_loop=on"]);
    let claims = json["claims"].as_array().expect("claims");
    let out = claims
        .iter()
        .any(|c| c["pass"] == false && c["class"] != "D");
    assert_eq!(code, Some(i32::from(out)));
    assert!(!claims.is_empty());
}
