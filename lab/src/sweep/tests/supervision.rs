use super::cells;
use crate::sweep::{supervise, Store};
use std::process::Command;
use std::time::Duration;

/// A program that takes cells and answers none.
fn silent() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

#[test]
fn who_said_no_is_not_asked_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let todo = cells("experiments = \"tlb-stress\"\nseeds = 4\nvariants = \"base\"\n");
    let slow = || {
        // Workers that are still being started when the sweep is to end keep it waiting.
        std::thread::sleep(Duration::from_millis(500));
        silent()
    };
    let mut asked = 0;
    let tally = supervise(&store, &todo, Some(2), &slow, &mut |_| {
        asked += 1;
        false
    });
    let tally = tally.unwrap();
    assert_eq!((asked, tally.cells, tally.finished()), (1, 4, 0));
    assert!(tally.failed.is_empty());
}
