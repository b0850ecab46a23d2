//! How a remote disk is used.

crate::options::options! {
    /// How a remote disk is used. More than one connection needs a server whose flush covers all of them.
    #[derive(Copy)]
    NbdOptions {
        /// Most bytes of writes since the last flush that are kept to be written again after a lost connection. With 0 none
        /// are kept, and after a lost connection the next flush fails if there were any.
        replay, with_replay: u64 = 0;
    }
}
