//! `scripts/pages.bt` beside a program that says itself what it reads and writes.

use super::*;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Prints `KIND PROCESS INODE FIRST LAST` of each call that the page cache takes part in: bytes of the file.
const PROGRAM: &str = r#"
import os, sys

PAGE = 4096
APPEND, NOAPPEND = 0x10, 0x20
kind = os.O_RDWR | os.O_CREAT


def say(kind, fd, at, done):
    if done > 0:
        line = f"{kind} {os.getpid()} {os.fstat(fd).st_ino:x} {at} {at + done - 1}\n"
        os.write(1, line.encode())


fd = os.open("plain", kind)
with open("/proc/self/comm", "w") as comm:
    comm.write("7/8 [000] 1.2:")
say("W", fd, 0, os.write(fd, bytes(100 * PAGE)))
say("W", fd, 100 * PAGE, os.writev(fd, [b"ta", b"il"]))
for at, length in ((7 * PAGE + 10, 100), (50 * PAGE - 1, 3 * PAGE), (100 * PAGE, 100), (1 << 40, 5)):
    say("R", fd, at, len(os.pread(fd, length, at)))
os.lseek(fd, 20 * PAGE, os.SEEK_SET)
say("R", fd, 20 * PAGE, len(os.read(fd, 2 * PAGE)))
say("R", fd, 22 * PAGE, os.readv(fd, [bytearray(1), bytearray(9)]))
say("R", fd, 70 * PAGE, os.preadv(fd, [bytearray(1)], 70 * PAGE))
say("W", fd, 40 * PAGE + 1, os.pwrite(fd, bytes(PAGE), 40 * PAGE + 1))
say("W", fd, (5 << 32) + 7, os.pwritev(fd, [bytes(PAGE), bytes(9)], (5 << 32) + 7))

# Where a write to the end of a file lands, whatever it names.
end = os.open("end", kind | os.O_APPEND)
size = 0
for length in (5000, 3):
    say("W", end, size, os.write(end, bytes(length)))
    size += length
    say("W", end, size, os.pwrite(end, bytes(length), 1))
    size += length
    say("W", end, size, os.pwritev(end, [bytes(length)], 1))
    size += length
middle = os.open("middle", kind)
size = 0
for length in (6000, 2):
    say("W", middle, size, os.pwritev(middle, [bytes(length)], 5, APPEND))
    size += length
try:
    say("W", end, 4096, os.pwritev(end, [bytes(2 * PAGE)], 4096, NOAPPEND))
except OSError:
    pass  # Of Linux 6.9.

# Other names and lengths of a file, other descriptors.
os.rename("plain", "renamed")
os.truncate("renamed", 10 * PAGE)
copy = os.dup(fd)
os.set_inheritable(copy, True)
os.close(fd)
say("R", copy, 9 * PAGE, len(os.pread(copy, 4 * PAGE, 9 * PAGE)))
os.unlink("renamed")
say("W", copy, 60 * PAGE, os.pwrite(copy, bytes(PAGE), 60 * PAGE))

# More children than there is room for at a time.
for child in range(100):
    if os.fork() == 0:
        os.pread(copy, 1, 60 * PAGE)
        os._exit(0)
    os.wait()
    line = f"R child {os.fstat(copy).st_ino:x} {60 * PAGE} {60 * PAGE}\n"
    os.write(1, line.encode())
if os.fork() == 0:
    say("R", copy, 60 * PAGE, len(os.pread(copy, 1, 60 * PAGE)))
    os.execv(sys.executable, [sys.executable, "-ISBc", "import os; os.pread(%d, 1, 0)" % copy])
os.wait()

# Not of the page cache.
os.read(os.open("/proc/self/stat", os.O_RDONLY), 100)
inside, outside = os.pipe()
os.write(outside, bytes(100))
os.read(inside, 100)
"#;

/// Why the script cannot run here.
fn missing() -> Option<&'static str> {
    let tracefs = [
        "/sys/kernel/tracing/events",
        "/sys/kernel/debug/tracing/events",
    ];
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let found = |path: &str| Path::new(path).exists();
    match () {
        () if !is_root => Some("tracing needs root"),
        () if !found("/usr/bin/bpftrace") || !found("/usr/bin/python3") => {
            Some("bpftrace or python3 is not installed")
        }
        () if !found("/sys/kernel/btf/vmlinux") => Some("the kernel has no BTF"),
        () if !tracefs.into_iter().any(found) => Some("tracefs is not mounted"),
        () => None,
    }
}

/// `KIND INODE FIRST LAST` of a line that is a call.
fn call(line: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, fields) = line.split_once(": dev=")?;
    let kind = match before.rsplit_once(' ')?.1 {
        "file_read" => "R",
        "file_write" => "W",
        _ => return None,
    };
    let (inode, range) = fields.split_once(" ino=")?.1.split_once(" ofs=")?;
    let (first, last) = range.split_once('-')?;
    Some((kind, inode, first, last))
}

#[test]
fn every_call_of_a_program_is_recorded() {
    if let Some(why) = missing() {
        eprintln!("SKIPPED: {why}");
        return;
    }
    let folder = Folder::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/pages.bt");
    let program = folder.file("program.py", PROGRAM);
    let recorded = folder.0.join("recorded");
    let output = Command::new("/usr/bin/bpftrace")
        .arg("-o")
        .arg(&recorded)
        .arg(fs::canonicalize(script).expect("the script"))
        .arg("-c")
        .arg(format!("/usr/bin/python3 -ISB {}", program.display()))
        .current_dir(&folder.0)
        .env("BPFTRACE_MAP_KEYS_MAX", "64")
        .output()
        .expect("bpftrace");
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && errors.contains("not permitted") {
        eprintln!("SKIPPED: {errors}");
        return;
    }
    assert!(output.status.success(), "{errors}");

    let said = String::from_utf8(output.stdout).expect("text");
    let said: Vec<Vec<&str>> = said
        .lines()
        .map(|line| line.split(' ').collect())
        .filter(|words: &Vec<&str>| words.len() == 5)
        .collect();
    assert!(
        said.len() > 20,
        "the program ended early: {said:?} {errors}"
    );
    let expected: Vec<_> = said
        .iter()
        .map(|words| (words[0], words[2], words[3], words[4]))
        .collect();
    let text = fs::read_to_string(&recorded).expect("a recording");
    let is_ours = |line: &&str| {
        call(line).is_some_and(|(_, inode, ..)| said.iter().any(|words| words[2] == inode))
    };
    let mut ours: Vec<&str> = text.lines().filter(is_ours).collect();
    // The last is of the program that the child has executed, which says nothing.
    assert_eq!(
        call(ours.pop().expect("calls")).expect("a call"),
        ("R", expected[0].1, "0", "0"),
        "{text}"
    );
    let found: Vec<_> = ours.iter().filter_map(|line| call(line)).collect();
    assert_eq!(found, expected);

    // The script counts its lines.
    let reader =
        open(recorded, None, &TraceOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    let tally = reader.tally();
    Trace::read(reader, |_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    assert!(tally.get().is_whole(), "{:?}", tally.get());
    assert!(text.contains("@printed["), "{text}");

    // All of it can be read, and no page is missing.
    let pages = |(.., first, last): &(&str, &str, &str, &str)| {
        let page = |byte: &str| byte.parse::<usize>().expect("a number") >> 12;
        page(last) + 1 - page(first)
    };
    let strict = TraceOptions {
        strict: true,
        ..TraceOptions::default()
    };
    let trace = sound((ours.join("\n") + "\n").as_bytes(), Format::Perf, &strict);
    assert_eq!(trace.ops().len(), expected.iter().map(pages).sum::<usize>());
    assert_eq!(trace.tasks, 102, "the program and its children");
}
