//! The lab: experiments, costs of the machine, trace formats, devices.

use super::markdown::{code, prose, Page};
use crate::lab::list::{device_doc, format_doc};
use coldset_lab::experiment::{Experiment, READ_AHEAD_KB};
use coldset_lab::experiments::{read_ahead_otherwise, EXPERIMENTS};
use coldset_lab::fidelity::Case;
use coldset_lab::report::{human, Band, Claim, Class, Published};
use coldset_lab::runner::show_scale;
use coldset_lab::traces::{Format, OpKind};
use coldset_machine::device::{DeviceKind, ZramAlgorithm};
use coldset_machine::Params;

/// Experiments with parameters and claims.
pub fn experiments() -> Page {
    let mut page = Page::new(
        "experiments.md",
        "Experiments",
        "The published experiments, their parameters and what is judged.",
    );
    page.paragraph(
        "`coldset lab run NAME --param PARAMETER=VALUE`. A claim of class A must hold for every seed, \
         one of class B has its median in the band, one of class N is no more than noise, class D \
         only has a direction.",
    );
    page.table(
        &["experiment", "before", "after", "scale", "what"],
        EXPERIMENTS.iter().map(|e| {
            let name = format!("[`{0}`](#{0})", e.name);
            vec![
                name,
                code(e.before),
                code(e.after),
                show_scale(e.scale),
                prose(e.doc),
            ]
        }),
    );
    EXPERIMENTS.iter().for_each(|e| experiment(&mut page, e));
    page
}

fn experiment(page: &mut Page, e: &Experiment) {
    page.heading(2, e.name);
    let extra: Vec<String> = e.extra.iter().map(|v| code(v)).collect();
    let beside = match extra.as_slice() {
        [] => String::new(),
        some => format!(", beside {}", some.join(", ")),
    };
    page.paragraph(&format!(
        "{}. `{}` against `{}`{beside}, scale {} unless told otherwise; effort 1: {}. Published in {}.",
        prose(e.doc),
        e.before,
        e.after,
        show_scale(e.scale),
        e.effort.share(1000),
        prose(e.source)
    ));
    if !e.deviations.is_empty() {
        page.table(
            &["cost", "here", "table", "why", "source"],
            e.deviations.iter().map(|d| {
                let d = d.shown();
                let (here, table) = (d.value.to_string(), d.table.to_string());
                vec![code(&d.name), here, table, prose(&d.why), prose(&d.source)]
            }),
        );
    }
    page.paragraph(&match read_ahead_otherwise(e.name) {
        Some(why) => format!("Read-ahead: {}.", prose(why)),
        None => format!("Read-ahead: {READ_AHEAD_KB} KiB, the kernel's default."),
    });
    page.table(
        &["parameter", "default", "what"],
        e.params
            .iter()
            .map(|p| vec![code(p.name), code(p.default), prose(p.doc)]),
    );
    page.table(
        &["claim", "class", "published", "band", "unit", "remark"],
        (e.claims)(e.before, e.after).iter().map(claim),
    );
}

fn claim(c: &Claim) -> Vec<String> {
    let band = match (c.band, c.class) {
        (Some(band), _) => show_band(band),
        (None, Class::N) => show_band(Band::around(1.0, 0.03)),
        (None, _) => String::new(),
    };
    let published = match &c.published {
        None => String::new(),
        Some(Published::Number(x)) => human(*x),
        Some(Published::Pair { before, after }) => {
            format!("{}, then {}", human(*before), human(*after))
        }
        Some(Published::Text(text)) => prose(text),
    };
    let note = match c.restates.as_str() {
        "" if !c.cannot.is_empty() => prose(&format!("cannot come out: see {}", c.cannot)),
        "" => prose(&c.note),
        parameter => format!("restates {}", code(parameter)),
    };
    let name = prose(&c.name);
    vec![
        name,
        c.class.to_string(),
        published,
        band,
        prose(&c.unit),
        note,
    ]
}

fn show_band(band: Band) -> String {
    let Band { lo, hi } = band;
    match (lo.is_finite(), hi.is_finite()) {
        (true, true) if lo == hi => human(lo),
        (true, true) => format!("{} to {}", human(lo), human(hi)),
        // The least number above zero stands for "more than nothing".
        (true, false) if lo == f64::EPSILON => "above 0".into(),
        (true, false) => format!("at least {}", human(lo)),
        (false, true) if hi == -f64::EPSILON => "below 0".into(),
        (false, true) => format!("at most {}", human(hi)),
        (false, false) => "any".into(),
    }
}

/// Costs of the machine.
pub fn parameters() -> Page {
    let mut page = Page::new(
        "parameters.md",
        "Costs of the simulated machine",
        "Every constant of the machine, with its unit and where it comes from.",
    );
    page.paragraph(
        "All experiments share one set. Marks: P published, A assumed (claims must not depend on it; \
         `coldset lab verify --sensitivity` halves and doubles them), S a setting of the model. \
         `--cost NAME=VALUE` changes one for a run. Files named in the sources are parts of the \
         specification.",
    );
    page.table(
        &["cost", "value", "unit", "mark", "what", "source"],
        Params::default().describe().into_iter().map(|p| {
            vec![
                code(p.name),
                p.value.to_string(),
                p.unit.into(),
                p.mark.letter().into(),
                prose(p.what),
                prose(p.source),
            ]
        }),
    );
    page
}

/// How the kinds of accesses are written in CSV and in pageops.
fn accesses(page: &mut Page) {
    page.heading(2, "Accesses");
    page.paragraph(
        "What one access does, and how pageops and CSV write it. CSV has a header that names its \
         columns, `page` and any of `op`, `object` and `task`, or these four in this order without a header; what is left out \
         or empty is `r`, object 0 (1 where the op is `a` or `l`) and task 0.",
    );
    page.table(
        &["pageops", "CSV", "what"],
        OpKind::ALL.map(|kind| {
            let (csv, what) = access_doc(kind);
            vec![
                (kind as u8).to_string(),
                csv.map_or_else(String::new, code),
                prose(what),
            ]
        }),
    );
    page.paragraph(
        "So a `w` of a page that is not in memory is a miss. A program that writes whole pages is written in text as offsets and \
         sizes, `--columns offset,size,op` (ops `r` and `w`): a page that a write covers is not read first. Or it is \
         written as pageops.",
    );
    page.paragraph(
        "An object (0 to 255) is a file, or a region of anonymous memory if its accesses are `a` and `l`: one object is never \
         both. Files are the same for all tasks, and anonymous memory of one number is another one in each process. A task (0 to \
         65535) is a program with an address space and a memory cgroup of its own below the limit. By hand, \
         a program that fills two pages of anonymous memory and reads one of them back while another reads a file:",
    );
    page.verbatim(
        &[
            "page,op,object,task",
            "0,a,1,0",
            "1,a,1,0",
            "7,r,0,1",
            "0,l,1,0",
        ]
        .map(str::to_owned),
    );
    page.paragraph(
        "A record of pageops has 8 bytes, little-endian: kind (1 byte), object (1), task (2), page (4; below 2^31). A file \
         without a header is version 1 and has accesses alone. Version 2 begins with the record kind 42, value 2 in place \
         of the page, and has steps between the accesses, kinds 32 to 41: fsync, advice, truncate, unlink, unmap, exit, think \
         (nanoseconds), phase, process, call.",
    );
}

/// The op of CSV and what it does.
fn access_doc(kind: OpKind) -> (Option<&'static str>, &'static str) {
    match kind {
        OpKind::MappedRead => (
            Some("m"),
            "read through a mapping of a file: a fault if the page is not mapped",
        ),
        OpKind::Pread => (Some("r"), "read of a file by call, `pread`"),
        OpKind::Pwrite => (
            Some("w"),
            "write of a part of a page by call, `pwrite`: a page that is missing is read first",
        ),
        OpKind::AnonWrite => (
            Some("a"),
            "store to anonymous memory; the first one of a page reads nothing",
        ),
        OpKind::AnonRead => (Some("l"), "load from anonymous memory"),
        OpKind::WholeWrite => (
            None,
            "write of a whole page of a file by call: nothing is read first",
        ),
        OpKind::MappedWrite => (
            None,
            "store through a mapping of a file: a page that is missing is read first",
        ),
    }
}

/// Trace formats, devices and recorded cases.
pub fn formats() -> Page {
    let mut page = Page::new(
        "formats.md",
        "Traces and devices",
        "Trace formats that are read, and devices that are simulated.",
    );
    page.heading(2, "Trace formats");
    page.paragraph(
        "Recognised by name and content, or named with `--format`; plain or packed with gzip, zstd or \
         xz. Journals of the pager are recognised, too.",
    );
    page.table(
        &["format", "what"],
        Format::ALL.map(|f| vec![code(f.name()), prose(format_doc(f))]),
    );
    accesses(&mut page);
    page.heading(2, "Devices");
    page.paragraph("For `--swap DEVICE:SIZE`, and in parameters of experiments.");
    page.table(
        &["device", "what"],
        DeviceKind::ALL.map(|d| vec![code(d.name()), prose(device_doc(d))]),
    );
    let names = ZramAlgorithm::ALL.map(|a| code(a.name())).join(", ");
    page.paragraph(&format!(
        "Swap in memory, `--swap zram:SIZE:ALGORITHM`: {names}."
    ));
    page.heading(2, "Recorded cases");
    let cases = Case::ALL.map(|c| code(c.name())).join(", ");
    page.paragraph(&format!(
        "Access sequences that ran on a real kernel, for `coldset lab fidelity --cases`: {cases}."
    ));
    page
}
