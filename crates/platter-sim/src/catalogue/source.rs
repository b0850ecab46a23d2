//! Where the values of a disk are from.

/// The origin of some of a disk's values: of all of a group, or of one, named `group.value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is the source of.
    pub of: &'static str,
    /// Where it is from, or `estimated` with what it was estimated from.
    pub source: &'static str,
}

/// The source of a value: that of the value itself, or else of its group.
pub fn source_of(sources: &'static [Source], group: &str, value: &str) -> Option<&'static str> {
    let own = sources
        .iter()
        .find(|source| source.of.strip_prefix(group).and_then(|rest| rest.strip_prefix('.')) == Some(value));
    own.or_else(|| sources.iter().find(|source| source.of == group)).map(|source| source.source)
}
