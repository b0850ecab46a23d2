//! Counters, and the report at exit.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident $text:literal)*) => {
        /// Counts since the process began.
        #[derive(Debug)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The counts of this process.
        pub static STATISTICS: Statistics = Statistics { $($name: AtomicU64::new(0),)* };

        impl Statistics {
            /// Begins anew, in a process that has just been forked.
            pub(crate) fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }

            fn rows(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $text, self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

statistics! {
    /// Reads accepted.
    reads "reads"
    /// Writes accepted.
    writes "writes"
    /// Syncs accepted.
    syncs "syncs"
    /// Bytes read.
    read_bytes "bytes read"
    /// Bytes written.
    written_bytes "bytes written"
    /// Requests that ended with an error other than `ECANCELED`.
    failed "failed"
    /// Requests that were cancelled.
    cancelled "cancelled"
    /// Requests refused with `EAGAIN` because the depth was reached.
    refused "refused (depth reached)"
    /// Most requests outstanding at once.
    most_outstanding "most outstanding"
    /// Requests that waited for others of their descriptor.
    held "held for order"
    /// Calls of the driver that started requests.
    batches "batches"
    /// Waits for completions or requests.
    sleeps "sleeps"
    /// Signals sent.
    signals "signals"
    /// Threads started for notifications.
    threads "notification threads"
    /// Notifications given up because the system had no resources for them for long.
    lost_notifications "lost notifications"
}

/// How the counters are printed at exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportForm {
    /// Not at all.
    #[default]
    Off,
    /// Lines of text.
    Text,
    /// One JSON object on one line.
    Json,
}

impl Statistics {
    /// The counters in a form, with the name of the driver.
    pub fn report(&self, form: ReportForm, driver: &str) -> String {
        let mut out = String::new();
        match form {
            ReportForm::Off => {}
            ReportForm::Text => {
                let _ = writeln!(out, "platter aio: driver {driver}");
                for (_, text, value) in self.rows() {
                    let _ = writeln!(out, "platter aio: {text} {value}");
                }
            }
            ReportForm::Json => {
                let _ = write!(out, "{{\"driver\":\"{driver}\"");
                for (name, _, value) in self.rows() {
                    let _ = write!(out, ",\"{name}\":{value}");
                }
                out.push_str("}\n");
            }
        }
        out
    }
}
