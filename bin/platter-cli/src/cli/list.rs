//! Lists in one argument.

use super::CliError;

/// The parts of a list with commas; those inside parentheses separate nothing: `deadline(fifo_batch=4, front_merges=0), noop`.
pub(crate) fn split_list(list: &str) -> Result<Vec<&str>, CliError> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, char) in list.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[begin..].trim());
    match parts.contains(&"") {
        true => Err(CliError::usage(format!("the list `{list}` has an empty part"))),
        false => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_parentheses_separate_nothing() {
        let split = |list| split_list(list).ok();
        assert_eq!(split("noop"), Some(vec!["noop"]));
        assert_eq!(split("a(b=1, c=d(e, f)) , noop"), Some(vec!["a(b=1, c=d(e, f))", "noop"]));
        assert_eq!(split("a)),b"), Some(vec!["a))", "b"]));
        assert!(["", "a,", ",a", "a, ,b"].map(split).iter().all(Option::is_none));
    }
}
