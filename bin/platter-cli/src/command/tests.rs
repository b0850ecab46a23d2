//! The command line is consistent, and so are its help texts.

use super::Cli;
use clap::{Command, CommandFactory};

/// The words of a command line up to the shell's operators: `>`, `|`, `&&`, a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let end = words.iter().position(|word| matches!(word.as_str(), ">" | "|" | "&&" | "&" | "#"));
    words.truncate(end.unwrap_or(words.len()));
    words
}

/// All examples of a command and its verbs, in lists with their headings in the help.
fn examples(command: &Command, found: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let list = help.split_once("Example").map_or("", |(_, list)| list);
    let lines = list.lines().filter(|line| line.starts_with("  platter "));
    found.extend(lines.map(|line| line.trim().to_owned()));
    command.get_subcommands().for_each(|verb| examples(verb, found));
}

#[test]
fn examples_in_help_texts_are_commands() {
    platter_repro::policies::register_readahead();
    let mut command = Cli::command();
    command.build();
    let mut found = Vec::new();
    examples(&command, &mut found);
    assert!(found.len() >= 30, "{}", found.len());
    for example in found {
        if let Err(error) = Cli::command().try_get_matches_from(words(&example)) {
            panic!("{example}: {error}");
        }
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// The commands whose help is checked, with their subcommands.
const CHECKED: [&str; 4] = ["copy", "info", "list", "raid"];

#[test]
fn help_leaves_the_breaking_of_lines_to_the_terminal() {
    let command = Cli::command();
    let verbs = command.get_subcommands().filter(|verb| CHECKED.contains(&verb.get_name()));
    let all: Vec<_> = verbs.flat_map(|verb| verb.get_subcommands().chain([verb])).collect();
    assert_eq!(all.len(), 8);
    for verb in all {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        for paragraph in help.split("\n\n") {
            // Examples and tables are indented.
            let broken = paragraph.lines().skip(1).find(|line| !line.starts_with("  "));
            assert_eq!(broken, None, "{}: a paragraph is broken by hand", verb.get_name());
        }
    }
}
