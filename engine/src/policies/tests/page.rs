//! The page that shows how to add a policy shows what is here.

use std::path::Path;

/// Blocks of Rust with the files that the lines before them name.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut file = "";
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("<!-- test: code ") {
            file = path.trim_end_matches(" -->");
        } else if line == "```rust" {
            let block: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
            found.push((file.to_owned(), block.join("\n") + "\n"));
        }
    }
    found
}

#[test]
fn the_page_shows_the_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let Ok(page) = std::fs::read_to_string(root.join("docs/add-a-policy.md")) else {
        assert!(!root.join("docs").exists(), "the page is missing");
        return;
    };
    let blocks = blocks(&page);
    assert_eq!(blocks.len(), 5);
    for (file, block) in &blocks {
        let text = std::fs::read_to_string(root.join(file)).expect(file);
        assert!(text.contains(block), "{file} has no such lines:\n{block}");
    }
    let (file, whole) = &blocks[0];
    assert_eq!(file, "engine/src/policies/slru.rs");
    assert_eq!(*whole, include_str!("../slru.rs"));
    assert!(whole.lines().count() < 100);
}
