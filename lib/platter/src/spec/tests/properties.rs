//! Properties of every spec, and of every invalid text.

use proptest::prelude::*;

use super::*;
use crate::spec::{
    ArgValue, Args, format_size, format_time, parse_bool, parse_choice, parse_int, parse_size, parse_time,
    quote, quote_path,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// White space and comments that may stand between any two tokens.
fn gap() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "", " ", "\n", "\t ", " # (a, \"b\n"])
}

/// The text of a value: a word, a string, or a call of values.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => "[a-z0-9./_:@é-]{1,8}",
        1 => prop::sample::select(DEVICES.to_vec()).prop_map(str::to_owned),
        2 => any::<String>().prop_map(|text| quote(&text).into_owned()),
        1 => any::<Vec<u8>>().prop_map(|bytes| quote_path(Path::new(OsStr::from_bytes(&bytes))).into_owned()),
        1 => prop::sample::select(DEVICES.to_vec()).prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(6, 48, 5, |value| call("[a-zA-Z][a-z0-9_-]{0,6}", value))
}

fn call(
    name: impl Strategy<Value = String>,
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    let named = proptest::option::of(("[a-z][a-z0-9_-]{0,5}", gap(), gap()));
    let arg = (gap(), named, value, gap()).prop_map(|(before, name, value, after)| {
        let name = name.map(|(name, before, after)| format!("{name}{before}={after}")).unwrap_or_default();
        format!("{before}{name}{value}{after}")
    });
    (name, gap(), prop::collection::vec(arg, 0..5))
        .prop_map(|(name, gap, args)| format!("{name}{gap}({})", args.join(",")))
}

/// The text of a spec.
fn whole() -> impl Strategy<Value = String> {
    let device = prop::sample::select(DEVICES.to_vec()).prop_map(str::to_owned);
    let body = prop_oneof![4 => call(device, value()), 1 => "[a-z0-9./_:@-]{1,8}"];
    (gap(), body, gap()).prop_map(|(before, body, after)| format!("{before}{body}{after}"))
}

/// Text that mostly consists of elements of the language.
fn nearly() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => r#"[(),=#" \n]"#,
        2 => prop::sample::select(vec!["\\u{", "\\x", "e9", "}", "\\\\", "\\\"", "\\n", "\u{7}", "é", "1K", "size", "depth="])
            .prop_map(str::to_owned),
        2 => prop::sample::select(DEVICES.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Does everything that can be done with a text; errors must point into it.
fn exercise(text: &str) -> Result<(), TestCaseError> {
    let result = parse(text, &DEVICES).and_then(|spec| {
        accepted_again(&spec);
        for signature in [null(), raid0(), file()] {
            if let Err(error) = Args::new(&spec, &signature).and_then(Args::finish) {
                drop(error.to_string());
            }
        }
        Args::new(&spec, &raid0()).map(drop)
    });
    if let Err(error) = result {
        let span = error.span();
        prop_assert!(text.get(span.clone()).is_some(), "{span:?} of {text:?}");
        prop_assert!(error.to_string().starts_with(error.message()));
    }
    Ok(())
}

/// An accepted spec is accepted again when written back.
fn accepted_again(spec: &Spec) {
    assert_eq!(&super::spec(&spec.to_string()), spec);
}

proptest! {
    #[test]
    fn a_spec_written_back_is_the_same_spec(text in whole()) {
        let spec = spec(&text);
        let written = spec.to_string();
        let again = super::spec(&written);
        prop_assert_eq!(&again, &spec);
        prop_assert_eq!(again.to_string(), written);
    }

    #[test]
    fn a_quoted_word_keeps_its_text(text in any::<String>()) {
        let spec = spec(&format!("file({})", quote(&text)));
        let [arg] = spec.args() else { panic!("{spec:?}") };
        let ArgValue::Word(word) = arg.value() else { panic!("{spec:?}") };
        prop_assert_eq!(word.text(), text);
    }

    #[test]
    fn any_text_is_accepted_or_refused(text in any::<String>()) {
        exercise(&text)?;
    }

    #[test]
    fn nearly_a_spec_is_accepted_or_refused(text in nearly()) {
        exercise(&text)?;
    }

    #[test]
    fn a_damaged_spec_is_accepted_or_refused(text in whole(), at in any::<prop::sample::Index>(), c in any::<char>()) {
        let mut chars: Vec<char> = text.chars().collect();
        if !chars.is_empty() {
            let at = at.index(chars.len());
            chars[at] = c;
        }
        exercise(&chars.iter().collect::<String>())?;
        exercise(&chars[..at.index(chars.len() + 1)].iter().collect::<String>())?;
    }

    #[test]
    fn sizes_are_read_as_they_are_written(bytes in any::<u64>(), shift in 0u32..64) {
        let bytes = bytes >> shift << (shift / 2);
        prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
    }

    #[test]
    fn times_are_read_as_they_are_written(nanos in any::<u64>(), zeros in 0u32..12) {
        let scale = 10u64.pow(zeros);
        let time = Duration::from_nanos(nanos / scale * scale);
        prop_assert_eq!(parse_time(&format_time(time)), Ok(time));
    }

    #[test]
    fn any_text_is_a_value_or_none(text in r"[0-9]{0,40}(\.[0-9]{0,60})?[a-zA-Zµé]{0,4}|\PC*") {
        for error in [
            parse_size(&text).err(),
            parse_time(&text).err(),
            parse_int(&text).err(),
            parse_bool(&text).err(),
            parse_choice(&text, &["none", "deadline"]).err(),
        ].into_iter().flatten() {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
