//! Tests that need a process of their own: the test program runs itself again, for one test only.

use std::os::unix::process::CommandExt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ROLE: &str = "COLDSET_TEST_ROLE";

/// What this process is to do, if it is such a child.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The test's name as the program lists it: behind that of its module, which is the file that asks, unless that
/// is the program's first.
#[track_caller]
fn whole_name(test: &str) -> String {
    let file = Path::new(Location::caller().file()).file_stem();
    let file = file.unwrap().to_str().unwrap();
    let program = module_path!().split("::").next().unwrap();
    match file {
        "main" => test.into(),
        file if file == program => test.into(),
        module => format!("{module}::{test}"),
    }
}

/// This program, to run `test` in the given role.
#[track_caller]
pub fn command(test: &str, role: &str) -> Command {
    command_of(std::env::current_exe().unwrap(), test, role)
}

#[track_caller]
fn command_of(program: PathBuf, test: &str, role: &str) -> Command {
    let test = whole_name(test);
    let mut c = Command::new(program);
    c.args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    c
}

/// Runs `test` in the given role to its end.
#[track_caller]
pub fn run(test: &str, role: &str) -> Output {
    command(test, role).output().unwrap()
}

/// A user without any privilege, and a group of that kind.
pub const NOBODY: u32 = 65534;

/// As [`run`], as a user without any privilege if this one has some. The program is copied to where
/// that user can read it.
#[track_caller]
pub fn run_unprivileged(test: &str, role: &str) -> Output {
    let mut c = command_unprivileged(test, role);
    let output = c.output();
    if c.get_program() != std::env::current_exe().unwrap() {
        std::fs::remove_file(c.get_program()).unwrap();
    }
    output.unwrap()
}

/// This program, to run `test` in the given role as that user: if it is another one, a copy in the
/// folder for temporary files.
#[track_caller]
pub fn command_unprivileged(test: &str, role: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return command(test, role);
    }
    let copy = super::temp("program");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut c = command_of(copy, test, role);
    c.current_dir("/").uid(NOBODY).gid(NOBODY);
    c
}

/// This program as that user, started by root, to run `test` in the given role; and the copy of the
/// program, to be removed afterwards.
#[track_caller]
pub fn spawn_as_nobody(test: &str, role: &str) -> (std::process::Child, PathBuf) {
    let copy = super::temp("program");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let mut c = command_of(copy.clone(), test, role);
    let child = c.current_dir("/").uid(NOBODY).gid(NOBODY).spawn().unwrap();
    (child, copy)
}

/// Both streams of a child as text.
pub fn text(o: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr)
    )
}
