//! What must hold of every run is checked: parsers that break it are found.

use platter_fuzz::run::{Target, Verdict, run};

type Parser = fn(&[u8]) -> Result<Verdict, String>;

fn target(read: Parser) -> Target {
    Target {
        name: "test",
        summary: "a parser of the test's own",
        generate: |rng| rng.any().to_le_bytes().to_vec(),
        mutate: |_, input, other| input.extend(other),
        read,
        memory: 1 << 20,
    }
}

fn refused(message: &str) -> Result<Verdict, String> {
    Ok(Verdict::Refused(message.to_owned()))
}

#[test]
fn what_is_wrong_is_found() {
    let cases: [(&str, Parser); 7] = [
        ("index out of bounds", |input| refused(&input[100].to_string())),
        ("of memory", |_| {
            drop(std::hint::black_box(vec![0u8; 2 << 20]));
            Ok(Verdict::Accepted)
        }),
        ("allocations", |_| {
            (0..3_000_000).for_each(|n: u64| drop(std::hint::black_box(Box::new(n))));
            Ok(Verdict::Accepted)
        }),
        ("without a message", |_| refused(" \n")),
        ("bytes", |_| refused(&"x".repeat(1 << 15))),
        ("U+001B", |_| refused("expected a word, found \u{1b}[2J")),
        ("another text", |_| Err("another text".to_owned())),
    ];
    for (expected, read) in cases {
        let wrong = run(&target(read), b"input").expect_err(expected);
        assert!(wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn what_is_right_is_not() {
    assert!(run(&target(|_| refused("line 3: expected a number, found `é`")), b"").is_ok());
    let (verdict, usage) = run(&target(|_| Ok(Verdict::Accepted)), b"input").unwrap();
    assert_eq!((verdict, usage.calls), (Verdict::Accepted, 0));
}
