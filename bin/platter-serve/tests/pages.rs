//! The pages about the configuration and the metrics, and the files in contrib, say what the code does.

use platter_serve::config::{self, keys};
use platter_serve::metrics::FAMILIES;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Set, the tables of the pages are written instead of checked.
const WRITE: &str = "PLATTER_WRITE_TABLES";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn page(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks that a page has this text between its marks, or writes it.
fn check(name: &str, mark: &str, text: &str) {
    let old = page(name);
    let begin = old.find(mark).unwrap_or_else(|| panic!("{name} has no {mark}")) + mark.len();
    let end = begin + old[begin..].find("<!-- end -->").unwrap();
    let new = format!("{}\n{text}{}", &old[..begin], &old[end..]);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(path(name), new).unwrap();
    } else {
        assert!(old == new, "{name} is not up to date: {WRITE}=1 cargo test -p platter-serve --test pages");
    }
}

fn rows(title: &str, table: &[keys::Key], out: &mut String) {
    let _ = write!(out, "\n{title}\n\n| key | value | default | meaning |\n|---|---|---|---|\n");
    for key in table {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", key.name, key.values(), key.help);
    }
}

#[test]
fn the_page_lists_all_keys() {
    let mut text = String::new();
    rows("**`[server]`**, the server as a whole:", keys::SERVER, &mut text);
    rows("**`[devices.NAME]`**, a device:", keys::DEVICE, &mut text);
    rows("**`limits`** of a device:", keys::LIMITS, &mut text);
    rows("**`client_limits`** of a device:", keys::CLIENT_LIMITS, &mut text);
    rows("**`[exports.NAME]`**, an export:", keys::EXPORT, &mut text);
    check("docs/configuration.md", "<!-- keys -->", &format!("{text}\n"));
}

#[test]
fn the_page_lists_all_metrics() {
    let mut text = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for family in FAMILIES {
        let _ = writeln!(text, "| `{}` | {} | {} |", family.name, family.kind, family.help);
    }
    check("docs/metrics.md", "<!-- metrics -->", &text);
}

#[test]
fn the_example_is_a_configuration() {
    let page = page("docs/configuration.md");
    let begin = page.find("```toml\n").unwrap() + 8;
    let example = &page[begin..begin + page[begin..].find("```").unwrap()];
    let config = config::parse(example).unwrap();
    let names: Vec<&str> = config.devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!((names, config.exports.len()), (vec!["db", "backup"], 2));
    assert_eq!(config.devices[0].client_limits.bandwidth, 400 << 20);
    let wrong = example.replace("read_only", "readonly");
    assert!(config::parse(&wrong).unwrap_err().to_string().contains("did you mean read_only?"));
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let text = page("contrib/grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut expressions = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let words =
                target["expr"].as_str().unwrap().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words.filter(|word| word.starts_with("platter_")) {
                let name = word.strip_suffix("_bucket").unwrap_or(word);
                assert!(FAMILIES.iter().any(|family| family.name == name), "{name}");
                expressions += 1;
            }
        }
    }
    assert!(expressions >= 10);
}
