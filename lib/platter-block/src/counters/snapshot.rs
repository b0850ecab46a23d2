//! The counts at one moment: their sum over queues, and their change.

/// Defines `Snapshot` with a field for each count of the queues.
macro_rules! snapshot {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one or several queues at one moment.
        #[derive(Clone, Debug, Default)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Dispatches by number of requests then in flight, in powers of two.
            pub depth: [u64; DEPTH_BUCKETS],
        }

        impl Snapshot {
            /// Adds the counts of a queue.
            pub fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
                for (sum, cell) in self.depth.iter_mut().zip(&counters.depth) {
                    *sum += cell.get();
                }
            }

            /// Adds the counts of other queues.
            pub fn merge(&mut self, other: &Snapshot) {
                $(self.$name += other.$name;)*
                for (sum, count) in self.depth.iter_mut().zip(&other.depth) {
                    *sum += count;
                }
            }

            /// The counts since `earlier`.
            pub fn since(&self, earlier: &Snapshot) -> Snapshot {
                let mut diff = self.clone();
                $(diff.$name -= earlier.$name;)*
                for (d, e) in diff.depth.iter_mut().zip(&earlier.depth) {
                    *d -= e;
                }
                diff
            }

            /// Name and value of each count, for reports.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

pub(super) use snapshot;
