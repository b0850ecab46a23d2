mod argument_errors;
mod properties;
mod reading;
mod syntax;
mod syntax_errors;
mod values;

use std::time::Duration;

use super::{Argument, ArgumentKind, Signature, Spec, SpecError, SpecErrorKind, Words, parse};

/// The devices known to the tests.
const DEVICES: [&str; 8] = ["cache", "concat", "file", "null", "partition", "raid0", "ram", "sim"];

const SIZE: Argument = Argument {
    name: "size",
    kind: ArgumentKind::Size { min: 512, max: 1 << 50 },
    default: "",
    help: "capacity",
};
const CHUNK: Argument = Argument {
    name: "chunk",
    kind: ArgumentKind::Size { min: 4096, max: 1 << 30 },
    default: "64K",
    help: "bytes on one disk before the next",
};
const QUEUE: &[Argument] = &[
    Argument {
        name: "elevator",
        kind: ArgumentKind::Nested(Words(|| &["none", "deadline", "cfq"])),
        default: "none",
        help: "order of dispatch",
    },
    Argument {
        name: "depth",
        kind: ArgumentKind::Int { min: 1, max: 4096 },
        default: "64",
        help: "requests in flight",
    },
];

fn null() -> Signature {
    Signature { unnamed: &["size"], tables: &[&[SIZE], QUEUE], devices: 0..=0 }
}

fn raid0() -> Signature {
    Signature { unnamed: &[], tables: &[&[CHUNK]], devices: 2..=3 }
}

fn file() -> Signature {
    const FILE: &[Argument] = &[
        Argument { name: "path", kind: ArgumentKind::Path, default: "", help: "the file" },
        Argument {
            name: "driver",
            kind: ArgumentKind::Choice(&["uring", "aio", "threads"]),
            default: "uring",
            help: "how its I/O is done",
        },
        Argument { name: "direct", kind: ArgumentKind::Bool, default: "on", help: "go past the page cache" },
        Argument {
            name: "timeout",
            kind: ArgumentKind::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600) },
            default: "30s",
            help: "until an I/O is given up",
        },
        Argument { name: "journal", kind: ArgumentKind::Device, default: "", help: "where the log is kept" },
    ];
    Signature { unnamed: &["path"], tables: &[FILE, QUEUE], devices: 0..=0 }
}

fn spec(text: &str) -> Spec {
    parse(text, &DEVICES).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> SpecError {
    match parse(text, &DEVICES) {
        Ok(spec) => panic!("`{text}` is accepted as {spec}"),
        Err(error) => error,
    }
}

/// Compares an error, as shown, with the expected text.
#[track_caller]
fn check(error: &SpecError, kind: SpecErrorKind, expected: &str) {
    let expected = expected.trim_start_matches('\n').trim_end();
    let got = error.to_string();
    assert!(
        got == expected && error.kind() == kind,
        "expected {kind:?}:\n{expected}\n\ngot {:?}:\n{got}",
        error.kind()
    );
}
