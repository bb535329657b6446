use super::variants::changes;
use super::*;
use crate::runner::Variant;
use coldset_report::html::Page;

#[test]
fn what_differs_is_said_in_the_words_of_patches_and_switches() {
    let variants = Variant::parse_all(&["base", "v5"], &[]).unwrap();
    let list = changes(&variants);
    assert!(
        list.iter()
            .any(|p| p.starts_with("Patch ") && p.contains("smaller_batch: off \u{2192} on")),
        "{list:?}"
    );
}

#[test]
fn all_parameters_are_listed_with_their_marks() {
    let mut used = coldset_machine::Params::default();
    used.set("nvme_read_lat_ns", 12_345).unwrap();
    let page = Page {
        sections: vec![costs(&used)],
        ..Page::default()
    };
    let page = page.render();
    for info in used.describe() {
        assert!(page.contains(&format!("<td class=\"code\">{}</td>", info.name)));
    }
    assert!(page.contains("12,345") && page.contains("changed for this run; the default is"));
    assert!(page.contains("1 changed for this run."));
}
