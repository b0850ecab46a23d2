//! The page of tables says what the tables in the code say.

use crate::tree::root;
use platter_block::elevator;
use platter_block::params::Param;
use platter_disk::drivers::table::{self, Medium};
use std::fmt::Write as _;
use std::fs;

const PAGE: &str = "docs/tables.md";
/// Set, the page is written instead of checked.
const WRITE: &str = "PLATTER_WRITE_TABLES";

fn params(page: &mut String, params: &[Param]) {
    if params.is_empty() {
        return;
    }
    page.push_str("\n| parameter | default | unit | range | what it is |\n|---|---|---|---|---|\n");
    for p in params {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} to {} | {} |",
            p.name, p.default, p.unit, p.min, p.max, p.help
        );
    }
}

/// A row's one line as a sentence.
fn sentence(summary: &str) -> String {
    let mut chars = summary.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).chain(['.']).collect()
}

/// The page as it has to be.
fn page() -> String {
    let mut page = String::from(
        "# Tables\n\nWhat can be named in a device spec or option. This page is made from the tables in the code by a \
         test,\nwhich fails when the two differ; it says how to write the page anew.\n\n## Elevators\n\nChosen with \
         `elevator=NAME`; `none` is no elevator at all: first come, first served.\n",
    );
    for row in elevator::TABLE {
        let _ = writeln!(page, "\n### {}\n\n{}", row.name, sentence(row.summary));
        params(&mut page, row.params);
    }
    page.push_str("\n## Layers\n\nDevices made of devices.\n");
    for row in platter_stack::TABLE {
        let (least, most) = (row.members.start(), row.members.end());
        let members = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let _ = writeln!(page, "\n### {}\n\n{}\n", row.name, sentence(row.summary));
        let _ = writeln!(page, "- made of devices: {members}");
        params(&mut page, row.params);
    }
    page.push_str("\n## Drivers\n");
    for row in table::TABLE {
        let _ = writeln!(page, "\n### {}\n\n{}\n", row.name, sentence(row.summary));
        let medium = match row.medium {
            Medium::Size => format!("a size: `{}(1G)`", row.name),
            Medium::Path => format!("a path: `file(PATH, driver={})`", row.name),
        };
        let since =
            if row.since.is_empty() { "any kernel".to_string() } else { format!("Linux {}", row.since) };
        let _ = writeln!(
            page,
            "- takes {medium}\n- needs {since}\n- flush and durable write: {}",
            row.durability
        );
        params(&mut page, row.params);
    }
    page
}

/// Checks the page, or writes it when asked to.
pub(crate) fn check() {
    let path = root().join(PAGE);
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(
        found == page,
        "{PAGE} differs from the tables from line {} on; run `{WRITE}=1 cargo test -p platter --test tidy`",
        differs.unwrap_or(found.lines().count().min(page.lines().count())) + 1
    );
}
