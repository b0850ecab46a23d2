//! Sources of the values of a disk.

/// The source of some of a disk's values: of a whole group, or of one value, named `group.value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The group or value.
    pub of: &'static str,
    /// The source, or `estimated` with the basis of the estimate.
    pub source: &'static str,
}

/// The source of a value: its own, otherwise that of its group.
pub fn source_of(sources: &'static [Source], group: &str, value: &str) -> Option<&'static str> {
    let own = sources
        .iter()
        .find(|source| source.of.strip_prefix(group).and_then(|rest| rest.strip_prefix('.')) == Some(value));
    own.or_else(|| sources.iter().find(|source| source.of == group)).map(|source| source.source)
}
