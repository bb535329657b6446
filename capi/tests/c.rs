//! The header is what the sources say, and C and C++ programs build with it, link with both libraries,
//! and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo has put the libraries: beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

fn text(out: &Output) -> String {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    format!("{}{}", text(&out.stdout), text(&out.stderr))
}

#[derive(Clone, Copy, Debug)]
enum Link {
    Static,
    Shared,
}

struct Built(PathBuf);

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Builds a program; `None`, with a line why, if there is no such compiler.
fn build(compiler: &str, language: &[&str], source: &str, link: Link) -> Option<Built> {
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let file = format!("coldset-{name}-{compiler}-{link:?}-{}", std::process::id());
    let program = std::env::temp_dir().join(file);
    let folder = libraries();
    let mut cc = Command::new(compiler);
    cc.args(language)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"])
        .arg(format!("-I{HERE}/include"))
        .arg(Path::new(HERE).join(source))
        .args(["-x", "none"])
        .arg("-o")
        .arg(&program);
    match link {
        Link::Static => cc.arg(folder.join("libcoldset.a")),
        Link::Shared => cc
            .arg(folder.join("libcoldset.so"))
            .arg(format!("-Wl,-rpath,{}", folder.display())),
    };
    cc.args(["-lpthread", "-ldl", "-lm"]);
    match cc.output() {
        Ok(out) => {
            assert!(out.status.success(), "{cc:?}\n{}", text(&out));
            Some(Built(program))
        }
        Err(e) => {
            println!("skipped: {compiler}: {e}");
            None
        }
    }
}

const C11: &[&str] = &["-std=c11", "-D_GNU_SOURCE", "-x", "c"];
const CPP: &[&str] = &["-std=c++17", "-x", "c++"];

#[test]
fn header() {
    let mut builder = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(format!("{HERE}/cbindgen.toml")).unwrap());
    for module in ["error", "pool", "region", "stats"] {
        builder = builder.with_src(format!("{HERE}/src/{module}.rs"));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = format!("{HERE}/include/coldset.h");
    if std::env::var_os("COLDSET_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        have == made,
        "{path} is not what the sources say; run: COLDSET_BLESS=1 cargo test -p coldset-capi --test c"
    );
    for name in [
        "coldset_pool_new",
        "coldset_region_data",
        "COLDSET_LIMIT_MAX",
    ] {
        assert!(have.contains(name), "{name}");
    }
}

fn run_example(compiler: &str, language: &[&str], link: Link) {
    if let Err(why) = coldset_pager::probe(&[]) {
        println!("skipped: {why}");
        return;
    }
    let Some(program) = build(compiler, language, "examples/budget.c", link) else {
        return;
    };
    let data = program.0.with_extension("data");
    let file = std::fs::File::create(&data).unwrap();
    file.set_len(64 << 20).unwrap();
    let out = Command::new(&program.0).arg(&data).output().unwrap();
    let written = std::fs::read(&data).unwrap();
    std::fs::remove_file(&data).unwrap();
    assert!(out.status.success(), "{}", text(&out));
    let told = text(&out);
    let json = told.lines().nth(1).unwrap();
    let stats: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(stats["budget_bytes"], 16 << 20);
    assert!(
        stats["evicted"].as_u64().unwrap() > 2 * (48 << 20) / 4096,
        "{told}"
    );
    assert!(
        stats["engine"]["pgmajfault"].as_u64().unwrap() > 0,
        "{told}"
    );
    assert!(stats["engine"]["pgfault"].is_null(), "{told}");
    // What the program stored is in the file.
    for page in [0usize, 1, 777, 16383] {
        let at = page * 4096 + page % 4088;
        assert_eq!(written[at..at + 8], (page as u64).to_le_bytes());
    }
}

#[test]
fn example_in_c_with_the_static_library() {
    run_example("cc", C11, Link::Static);
}

#[test]
fn example_in_cpp_with_the_shared_library() {
    run_example("c++", CPP, Link::Shared);
}

#[test]
fn wrong_calls_are_errors() {
    let Some(program) = build("cc", C11, "tests/errors.c", Link::Shared) else {
        return;
    };
    let out = Command::new(&program.0).output().unwrap();
    let told = text(&out);
    assert!(out.status.success(), "{told}");
    assert!(told.contains("ok") || told.contains("skipped"), "{told}");
    println!("{told}");
}
