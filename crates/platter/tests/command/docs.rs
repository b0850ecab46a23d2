//! The specs that the documentation shows.

use platter::registry::{self, Access};
use std::fs;
use std::path::Path;

/// The lines of all blocks marked `spec` in the pages.
fn specs() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|page| page.extension().is_some_and(|end| end == "md"));
    let mut found = Vec::new();
    for page in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(page).unwrap();
        let mut lines = text.lines();
        while lines.by_ref().any(|line| line == "```spec") {
            found.extend(lines.by_ref().take_while(|line| *line != "```").map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_spec_of_the_documentation_can_be_read() {
    let specs = specs();
    assert!(specs.len() > 10, "{specs:?}");
    for spec in specs {
        // The files are not there, but nothing may be wrong with the specs themselves.
        if let Err(error) = registry::open(&spec, Access::read()) {
            assert!(!error.is_usage(), "{error}");
        }
    }
}
