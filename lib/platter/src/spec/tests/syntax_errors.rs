//! Messages about text that is not in the language, as their readers see them.

use super::*;

#[test]
fn unfinished_text() {
    check(
        &refused(""),
        SpecErrorKind::Syntax,
        r#"
the spec is empty
help: write a path, such as /dev/sdb, or a device, such as ram(1G)
"#,
    );
    check(
        &refused("raid0(a, b"),
        SpecErrorKind::Syntax,
        r#"
this `(` is not closed
    raid0(a, b
         ^
help: add a `)` after the last argument
"#,
    );
    check(
        &refused("raid0(a, #b)"),
        SpecErrorKind::Syntax,
        r#"
this `(` is not closed
    raid0(a, #b)
         ^
help: add a `)` after the last argument
help: a `#` that begins a word begins a comment: put a path that begins with it in quotes
"#,
    );
    check(
        &refused("raid0(a="),
        SpecErrorKind::Syntax,
        r#"
expected a value after `=`, but the spec ends here
    raid0(a=
            ^
"#,
    );
    check(
        &refused(r#"file("a)"#),
        SpecErrorKind::Syntax,
        r#"
this quote is not closed on its line
    file("a)
         ^
help: add a `"` where the text ends; a line break inside is written \n
"#,
    );
    check(
        &refused(r#"file("a\u{7"#),
        SpecErrorKind::Syntax,
        r#"
unknown escape
    file("a\u{7
           ^^
help: the escapes are \" \\ \n \r \t, \u{…} with 1 to 6 hexadecimal digits for a character, and \xHH with 2 for a byte
"#,
    );
}

#[test]
fn misplaced_punctuation() {
    check(
        &refused("raid0(a, b,)"),
        SpecErrorKind::Syntax,
        r#"
expected an argument, found `)`
    raid0(a, b,)
               ^
help: is there a comma too many, or a shell variable that is empty?
"#,
    );
    check(
        &refused("raid0(,a)"),
        SpecErrorKind::Syntax,
        r#"
expected an argument, found `,`
    raid0(,a)
          ^
help: is there a comma too many, or a shell variable that is empty?
"#,
    );
    check(
        &refused("raid0(a, b))"),
        SpecErrorKind::Syntax,
        r#"
this `)` closes nothing
    raid0(a, b))
               ^
help: remove it, or add the `(` that is missing; put a path with `)` in it in quotes
"#,
    );
    check(
        &refused("a, b"),
        SpecErrorKind::Syntax,
        r#"
a spec names one device, but a second one follows
    a, b
     ^
help: put several devices into one, such as raid0(chunk=64K, a.img, b.img), and a path with `,` in it in quotes
"#,
    );
    check(
        &refused("(a)"),
        SpecErrorKind::Syntax,
        r#"
expected a device, found `(`
    (a)
    ^
help: if this is one path with spaces or special characters, put it in quotes
"#,
    );
    check(
        &refused("raid0(a=)"),
        SpecErrorKind::Syntax,
        r#"
expected a value after `=`, found `)`
    raid0(a=)
            ^
help: is there a comma too many, or a shell variable that is empty?
"#,
    );
}

#[test]
fn paths_that_need_quotes() {
    check(
        &refused("my disk.img"),
        SpecErrorKind::Syntax,
        r#"
nothing may follow the device, found `d`
    my disk.img
       ^
help: if this is one path with spaces or special characters, put it in quotes
"#,
    );
    check(
        &refused("file(my disk.img)"),
        SpecErrorKind::Syntax,
        r#"
expected `,` or `)`, found `d`
    file(my disk.img)
            ^
help: if this is one path with spaces or special characters, put it in quotes
"#,
    );
    check(
        &refused("/dev/a=b"),
        SpecErrorKind::Syntax,
        r#"
nothing may follow the device, found `=`
    /dev/a=b
          ^
help: put a path with `=` in it in quotes; an argument `name=value` goes inside parentheses
"#,
    );
    check(
        &refused("raid0(/dev/a=b)"),
        SpecErrorKind::Syntax,
        r#"
this `=` follows no name
    raid0(/dev/a=b)
                ^
help: an argument's name is a letter, then letters, digits, `_` or `-`; put a path or value with `=` in it in quotes
"#,
    );
}

#[test]
fn paths_and_names_with_the_wrong_quotes() {
    check(
        &refused(r"file(C:\x)"),
        SpecErrorKind::Syntax,
        r#"
expected `,` or `)`, found `\`
    file(C:\x)
           ^
help: put a path with a backslash in quotes, and write it twice: \\
"#,
    );
    check(
        &refused("a(1).img"),
        SpecErrorKind::Syntax,
        r#"
nothing may follow the device, found `.`
    a(1).img
        ^
help: if this is one path with spaces or special characters, put it in quotes
"#,
    );
    check(
        &refused(r#""null"(1G)"#),
        SpecErrorKind::Syntax,
        r#"
`null` is not a name that can take arguments
    "null"(1G)
    ^^^^^^
help: a name is a letter, then letters, digits, `_` or `-`, without quotes; put a path with parentheses in quotes as a whole
"#,
    );
}

#[test]
fn odd_characters() {
    check(
        &refused(r#"file("a\q")"#),
        SpecErrorKind::Syntax,
        r#"
unknown escape
    file("a\q")
           ^^
help: the escapes are \" \\ \n \r \t, \u{…} with 1 to 6 hexadecimal digits for a character, and \xHH with 2 for a byte
"#,
    );
    check(
        &refused(r#"file("\u{110000}")"#),
        SpecErrorKind::Syntax,
        r#"
unknown escape
    file("\u{110000}")
          ^^
help: the escapes are \" \\ \n \r \t, \u{…} with 1 to 6 hexadecimal digits for a character, and \xHH with 2 for a byte
"#,
    );
    check(
        &refused("file(\"\u{7}\")"),
        SpecErrorKind::Syntax,
        r#"
the control character U+0007 is in quotes
    file("�")
          ^
help: write it as \u{7}
"#,
    );
    check(
        &refused("x\u{7}y"),
        SpecErrorKind::Syntax,
        r#"
nothing may follow the device, found `U+0007`
    x�y
     ^
help: if this is one path with spaces or special characters, put it in quotes
"#,
    );
}

#[test]
fn the_line_of_a_file() {
    check(
        &refused("# my disks\nraid0(\n  a.img,\n  b img\n)\n\n"),
        SpecErrorKind::Syntax,
        r#"
expected `,` or `)`, found `i`
   1 | # my disks
   2 | raid0(
   3 |   a.img,
   4 |   b img
           ^
   5 | )
help: if this is one path with spaces or special characters, put it in quotes
"#,
    );
}

#[test]
fn long_text_is_cut_in_messages_and_pictures() {
    let error = refused(&format!("{}(x), {}", "n".repeat(300), "y".repeat(300)));
    assert_eq!(error.message(), "a spec names one device, but a second one follows");
    let error = refused(&format!("{}(x)", "n".repeat(300)));
    assert_eq!(error.message(), format!("there is no device called `{}…`", "n".repeat(60)));
    let longest = error.to_string().lines().map(|line| line.chars().count()).max();
    assert_eq!(longest, Some(105), "four blanks, 100 columns and an ellipsis");
}
