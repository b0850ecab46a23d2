//! Keeps the rules of the house that a machine can check.

mod circles;
mod defects;
mod floors;
mod lexer;
mod modules;
mod names;
mod path;
mod source;
mod tables;
mod text;
mod tree;
mod unused;

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn source_files_keep_the_rules() {
    none(&source::problems(tree::files()));
}

#[test]
fn crates_use_only_those_below_them() {
    none(&floors::problems(tree::files()));
}

#[test]
fn nothing_stands_unused() {
    let files = tree::files();
    let targets = modules::of_project();
    let mut problems = unused::dependencies(files, targets);
    problems.extend(unused::dead_files(files, targets));
    problems.extend(unused::dead_items(files, targets));
    none(&problems);
}

#[test]
fn files_form_no_circles_but_those_listed() {
    none(&circles::problems(modules::of_project()));
}

#[test]
fn types_are_not_spread_over_many_files() {
    none(&circles::spread(modules::of_project()));
}

#[test]
fn texts_name_nothing_private_and_links_lead_somewhere() {
    none(&text::problems(tree::files()));
}

#[test]
fn pages_name_what_exists() {
    let files = tree::files();
    none(&names::problems(files));
    none(&names::misplaced(files));
    none(&names::wrong_commands(files));
    none(&names::lost_paths(files));
    none(&names::unlisted_features(files));
}

#[test]
fn the_paths_and_places_of_the_pages_are_those_of_the_code() {
    none(&path::problems(tree::files()));
}

#[test]
fn the_page_of_tables_is_that_of_the_code() {
    tables::check();
}

#[test]
fn what_must_find_each_defect_is_there() {
    none(&defects::problems(tree::files()));
    defects::check_tables(tree::files());
}

#[test]
fn the_readme_and_the_entry_for_machines_have_the_same_commands() {
    let files = tree::files();
    let read = |path: &str| files.iter().find(|f| f.path == path).map(|f| f.text.clone()).unwrap_or_default();
    let (readme, run) = (read("README.md"), read(".ci/run"));
    for command in ["cargo run --release -- bench dm", "cargo test --workspace"] {
        assert!(readme.lines().any(|l| l.trim() == command), "README.md lacks `{command}`");
        assert!(run.contains(&format!("run {command}")), ".ci/run lacks `{command}`");
    }
}

#[test]
fn the_program_in_the_readme_is_an_example_that_is_tested() {
    let files = tree::files();
    let read = |path: &str| files.iter().find(|f| f.path == path).map(|f| f.text.clone()).unwrap_or_default();
    let (readme, example) = (read("README.md"), read("lib/platter/examples/embed.rs"));
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let program = example.split_once("\n\n").map(|(_, program)| program);
    assert!(shown.is_some());
    assert_eq!(shown, program);
}
