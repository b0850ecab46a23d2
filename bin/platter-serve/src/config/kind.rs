//! The kinds of values in a configuration.

use platter::spec::{format_size, format_time};
use std::fmt;
use std::time::Duration;

/// The kind of a value, and its range.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    Switch,
    /// An integer, from and to.
    Count(i64, i64),
    /// Bytes from and to, as an integer or as text with a unit.
    Size(u64, u64),
    /// A time up to this many seconds, as text with a unit.
    Time(u64),
    Table,
    /// Tables by name.
    Tables,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text => f.write_str("text"),
            Kind::Switch => f.write_str("true or false"),
            Kind::Count(least, most) => write!(f, "{least} to {most}"),
            Kind::Size(least, most) => {
                write!(f, "{} to {}, such as \"200M\"", format_size(*least), format_size(*most))
            }
            Kind::Time(most) => {
                write!(f, "0s to {}, such as \"30s\"", format_time(Duration::from_secs(*most)))
            }
            Kind::Table => f.write_str("a table"),
            Kind::Tables => f.write_str("tables by name"),
        }
    }
}
