//! Defects that this project once had, kept to test its test instruments: with the feature `defects` each can be put
//! back while a test runs, and the soak must find it. Without the feature [`is_on`] is always `false` and costs
//! nothing.

/// One row per defect: its effect, variant, name on the command line and summary.
macro_rules! defects {
    ($($(#[$doc:meta])* $variant:ident $name:literal $summary:literal)*) => {
        /// A defect that can be put back.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Defect {
            $($(#[$doc])* $variant,)*
        }

        impl Defect {
            /// All defects.
            pub const ALL: &[Defect] = &[$(Defect::$variant),*];

            /// Name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Defect::$variant => $name,)*
                }
            }

            /// A summary of one line.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Defect::$variant => $summary,)*
                }
            }
        }
    };
}

defects! {
    /// A request that absorbs another one, all or some of whose bios have left it at their deadline, is started with the
    /// placeholders of those bios, which have no memory.
    AbsorbedAsWhole "absorbed-as-whole" "a write that was over at its deadline is done after all, with other data, when requests merge"
    /// An `aio_fsync` starts before the requests that were queued before it on its descriptor have ended.
    AioSyncPasses "aio-sync-passes" "an aio_fsync ends before a write that was queued before it"
    /// A barrier of a disk waits without a limit for lanes that are not run, and all later I/O waits behind it.
    BarrierNeverFails "barrier-never-fails" "a barrier of a disk waits without end for a lane that is not run"
    /// A barrier waits for requests that have timed out, and all later I/O waits behind it.
    BarrierWaitsForQuarantine "barrier-waits-for-quarantine" "a barrier waits for requests that have timed out"
    /// A cache leaves the pages of a range that a command has changed as they are.
    CacheCommandKeepsPages "cache-command-keeps-pages" "a cache shows old contents after a command has changed them"
    /// A cache sends a command before dirty pages of its range are written, when these lie in it as a whole.
    CacheCommandPassesDirty "cache-command-passes-dirty" "a command under a cache does not see what was written before it"
    /// A cache sends a command of unknown effect to the device as if it reached nothing that is cached or dirty.
    CacheCommandUnknownSent "cache-command-unknown-sent" "a cache sends commands of unknown effect past its pages"
    /// A cache writes a page again and reports it durable, while a write that timed out may still overwrite it.
    CacheFlushIgnoresDoubt "cache-flush-ignores-doubt" "a cache reports a page durable while an older write of it may still reach the disk"
    /// A flush of a cache that takes several turns passes over pages behind a barrier that can be written before it ends.
    CacheFlushMissesEpochs "cache-flush-misses-epochs" "a flush of many pages in a cache misses those behind a barrier that ends meanwhile"
    /// The frames of a cache's I/Os that timed out are never used again, even after the disk has returned them.
    CacheFramesStayLost "cache-frames-stay-lost" "a cache never uses the frames of an I/O that timed out again"
    /// A read call that is complete except for its lane blocks all other calls on its handle if the policy allows one
    /// call at a time.
    CacheHandleKept "cache-handle-kept" "with readahead=2.6.6+lock, a lane that is not run stops all reads of its handle"
    /// A flush of a cache does not look for writes that have ended without the lock of the cache.
    CacheMissesEndedWrites "cache-misses-ended-writes" "a flush of a cache misses a write that ended without the lock"
    /// A cache reads nothing ahead while many I/Os of any kind are under way.
    CacheReadaheadCountsAllIo "cache-readahead-counts-all-io" "a cache reads nothing ahead while many reads of any kind are under way"
    /// A page that was read into a cache on demand may be evicted before its reader gets it.
    CacheReadersLosePages "cache-readers-lose-pages" "a cache evicts a page before the reader that asked for it gets it"
    /// A cache that becomes smaller moves pages to other frames without their data.
    CacheResizeForgetsData "cache-resize-forgets-data" "a cache that becomes smaller moves pages without their data"
    /// A cache that becomes smaller takes pages that it moves for clean ones.
    CacheResizeForgetsDirty "cache-resize-forgets-dirty" "a cache that becomes smaller takes pages that it moves for clean ones"
    /// A flush reaches the first shard of a cache only.
    CacheShardsFlushFirst "cache-shards-flush-first" "a flush of a cache writes what its first shard has, and no other"
    /// What is written with a soft barrier stays in one shard of a cache, whose write-back the others do not wait for.
    CacheShardsPassBarrier "cache-shards-pass-barrier" "a shard of a cache writes back what is behind a soft barrier before another writes the barrier"
    /// Write-back fills the disk's queue, however little hurry there is, and reads wait behind it.
    CacheWriteBackStarvesReads "cache-write-back-starves-reads" "write-back of a cache fills the disk's queue, and reads wait behind it"
    /// One writer may have all dirty pages of a cache, and the others wait behind it.
    CacheWriterTakesAll "cache-writer-takes-all" "one writer may have all dirty pages of a cache"
    /// A cache writes nothing back while 1,024 I/Os of any kind are under way.
    CacheWriteBackCountsAllIo "cache-write-back-counts-all-io" "a cache writes nothing back while 1,024 I/Os of any kind are under way"
    /// The order in which requests of clients start does not follow their weights.
    ClientWeightsIgnored "client-weights-ignored" "clients of a server share a device without regard to their weights"
    /// A device that is closed drops the writes of dropped futures that have not started.
    CloseDropsQueued "close-drops-queued" "closing a device loses writes that a program left to it"
    /// Bounce memory of misaligned reads keeps data of an earlier I/O.
    CopiesShowOthers "copies-show-others" "a bounced read of a disk that touches no memory shows another I/O's bytes"
    /// A bio's deadline is checked only after the driver has taken it.
    DeadlineFromStart "deadline-from-start" "a bio that waits in a queue does not time out"
    /// Buffers of the program are dropped while a lock is held, so that a destructor that calls the device deadlocks.
    DestructorsUnderLocks "destructors-under-locks" "buffers are dropped under locks; destructors that call the device hang"
    /// A server that disconnects a client closes the connection while the device still has requests of it, and the client
    /// sends them again.
    DisconnectEarly "disconnect-early" "a disconnected client's old write lands over a newer one"
    /// Ranges that a timed-out request may still change are written, read and flushed without waiting for it.
    DoubtIgnored "doubt-ignored" "nothing waits for a write that has timed out and may still reach the disk"
    /// A bio without a deadline waits without a limit for the end of a doubt that only a lane which is not run can see.
    DoubtWaitsForOwner "doubt-waits-for-owner" "I/O to a range in doubt waits without end for a lane that is not run"
    /// A device that is brought to rest is flushed while requests that were begun still run.
    DrainLeavesRequests "drain-leaves-requests" "a server reports a device at rest while requests of clients are in it"
    /// An export answers a flush before the device has carried it out.
    ExportFlushEarly "export-flush-early" "a server answers a flush that the disk has not carried out"
    /// A filter that leaves the order of barriers to the device below passes them on as I/O without order.
    FilterBarrierLost "filter-barrier-lost" "a barrier reaches the disk below a filter as a plain write or flush"
    /// A bio beyond the end of the device below a filter is passed on without the filter, and succeeds if the device grows
    /// before it gets there.
    FilterPassesUnseen "filter-passes-unseen" "a filter does not see a bio beyond the end of a disk that has grown again when it gets there"
    /// A queue of a disk without a volatile cache takes FUA and PREFLUSH off the submitter's bio, which is then written
    /// without them to the next disk.
    FuaStripped "fua-stripped" "a bio that is used again has lost FUA and PREFLUSH"
    /// A virtual machine is told that a failed request was carried out.
    GuestErrorsHidden "guest-errors-hidden" "a guest is told that a request succeeded that has failed"
    /// A write of a virtual machine that has turned the write cache of its disk off is answered before it is durable.
    GuestWritesVolatile "guest-writes-volatile" "a guest's write without a write cache is answered before it is durable"
    /// Requests of a virtual machine are not recorded in the region of requests in flight.
    InFlightForgotten "in-flight-forgotten" "requests that a killed server had taken from a guest are never answered"
    /// Nothing is concluded from the end of an iSCSI session about writes that were not flushed.
    IscsiLossForgotten "iscsi-loss-forgotten" "a flush says that data is durable which an iSCSI target may have lost"
    /// A new iSCSI session does not take the place of the one that ended.
    IscsiOldSessionLives "iscsi-old-session-lives" "a write of an iSCSI session that ended lands over newer data of the next one"
    /// A barrier of a layer waits without a limit for lanes that are not run, and all later I/O waits behind it.
    LayerBarrierNeverFails "layer-barrier-never-fails" "a barrier of a layer waits without end for a lane that is not run"
    /// A copy between the devices below a layer ends half-way and counts as whole.
    LayerCopyShort "layer-copy-short" "a layer copies half of a chunk and takes it for the whole"
    /// A parameter of an open layer is accepted and not set.
    LayerParamIgnored "layer-param-ignored" "a parameter that is set in an open layer has no effect"
    /// Background work of a layer does not keep to its rate.
    LayerRateIgnored "layer-rate-ignored" "background work of a layer ignores its rate"
    /// A record that a layer keeps in two copies is written once.
    LayerRecordOnce "layer-record-once" "a layer's record is written in one copy, so that damage to that copy loses it"
    /// Sizes in the status of a layer are numbers of sectors.
    LayerStatusInSectors "layer-status-in-sectors" "sizes in the status of a layer are in sectors and called bytes"
    /// A lane whose bios another lane has brought back does not ask to be run, so that a program which waits for the first of
    /// its lanes' wake-ups in virtual time comes late.
    MailIsSilent "mail-is-silent" "a lane does not ask to be run when another one has brought bios back for it"
    /// The number of bios in a request wraps at 65,536, and the rest of them never complete.
    MergedCountWraps "merged-count-wraps" "a request of more than 65,535 bios loses count and never completes them"
    /// A multipath device sends what overlaps a write in doubt through another path, while the first may still carry it out.
    MultipathDoubtIgnored "multipath-doubt-ignored" "a write that a path may still carry out is overtaken through another path"
    /// A write that times out on its second path is reported as not carried out, although the first may have done so.
    MultipathFirstTryForgotten "multipath-first-try-forgotten" "a write that failed on one path and timed out on the next is said not to be carried out"
    /// A flush of a multipath device says that the data is durable although no path has carried it out.
    MultipathFlushForgotten "multipath-flush-forgotten" "a flush through several paths succeeds although all of them have failed"
    /// The queue of a path whose failure ended a flush refuses all later flushes, also when the path works again.
    MultipathFlushStaysFailed "multipath-flush-stays-failed" "flushes through a path fail for ever after it has failed during one"
    /// A change that was sent over a connection which was lost without a sign of the server is sent again, although the
    /// server may still carry out the first one.
    NbdDoubtForgotten "nbd-doubt-forgotten" "a write that a remote server may still carry out is sent to it again"
    /// A server writes without FUA what a client wants to be durable when it is answered.
    NbdFuaIgnored "nbd-fua-ignored" "an NBD server answers a write with FUA before it is durable"
    /// A flush after a lost connection succeeds although the server may have lost writes.
    NbdLossForgotten "nbd-loss-forgotten" "a flush says that data is durable which a remote server may have lost"
    /// A server copies the data of a read once more before it is sent.
    NbdReadsCopied "nbd-reads-copied" "an NBD server copies what it reads before it is sent"
    /// A client that is to encrypt goes on without encryption if the server has none.
    NbdTlsOptional "nbd-tls-optional" "a client that is to use TLS goes on without it if the server has none"
    /// If a file ends inside a page, only the last partial block goes through the page cache; the rest of its page
    /// bypasses it.
    OddEndAlone "odd-end-alone" "the end of a file of odd size goes through the page cache, the rest of its page around it"
    /// The driver is not told that a request is an ordered tag, although nothing waits for its completion.
    OrderedTagForgotten "ordered-tag-forgotten" "a barrier that is sent as an ordered tag reaches the disk as a simple one"
    /// What was held back while the order of barriers was switched stays there until something else lets it in.
    OrderedSwitchHolds "ordered-switch-holds" "I/O that was submitted while the order of barriers was switched never ends"
    /// A simulated disk serves its queue as if no request were an ordered tag.
    OrderedTagPassed "ordered-tag-passed" "a simulated disk serves requests before an ordered tag that was sent before them"
    /// A bio that was examined before the device shrank is not examined again under the queue's lock.
    PrebuiltOfOldSize "prebuilt-of-old-size" "a request prepared before a device shrank is started past its new end"
    /// A disk that shrank and grew again is used to its end although the data loss was not acknowledged.
    RegrownAsNew "regrown-as-new" "what was cut off a disk that grew again reads as zeroes without an error"
    /// Clients of a server whose predecessor was killed are not told that writes may be lost.
    RestartForgotten "restart-forgotten" "a server that follows a killed one answers flushes as if nothing were lost"
    /// A command that follows an ordered one is carried out although what it must follow was ended.
    ScsiOrderIgnored "scsi-order-ignored" "a command is carried out before an ordered one that was ended and comes again"
    /// A command is carried out that was sent behind an ordered one which the unit had just refused.
    ScsiOrderedRefusedAlone "scsi-ordered-refused-alone" "a command overtakes an ordered one that was refused and comes again"
    /// A command that was given no answer is taken to be carried out.
    ScsiSilenceIsGood "scsi-silence-is-good" "a command that a reset of the bus has ended is reported as carried out"
    /// Lanes that several threads submit to use rings, which tie requests to the thread that submitted them: when
    /// that thread exits, the kernel cancels its requests.
    SharedLaneOnRing "shared-lane-on-ring" "requests of a thread that exits are cancelled, and those of one that blocks wait for it"
    /// A write past the end of a truncated file extends it without an error.
    ShrunkFileExtended "shrunk-file-extended" "a write past the end of a truncated file extends it with a hole that reads as zeroes"
    /// A flush of a snapshot flushes its store only if the table has to be written.
    SnapshotFlushJoins "snapshot-flush-joins" "a flush of a snapshot covers only chunks that are new in its store"
    /// A merge clears entries of a snapshot's table before the chunks are durable on the origin.
    SnapshotMergeUnflushed "snapshot-merge-unflushed" "a merge of a snapshot forgets chunks that are not durable on the origin"
    /// The origin of a snapshot is changed without keeping what it had.
    SnapshotOriginUnkept "snapshot-origin-unkept" "the origin of a snapshot is changed without keeping its old contents"
    /// The table of a snapshot's store names chunks whose copies are not durable.
    SnapshotTableFirst "snapshot-table-first" "the table of a snapshot names copies that are not durable"
    /// Other lanes, and bios of the same lane that need a flush, pass a soft barrier.
    SoftBarrierPassed "soft-barrier-passed" "other lanes, and flushes and durable writes of the same lane, pass a soft barrier"
    /// Requests that have timed out fill the depth and keep all other requests waiting without a limit.
    StuckDepthIgnored "stuck-depth-ignored" "requests that have timed out and fill the depth stop the device silently"
    /// A write through a file that was opened with `O_DSYNC` is answered before it is durable.
    SyncWritesVolatile "sync-writes-volatile" "a write to a served file that was opened with O_DSYNC is not durable"
    /// An interrupted call or a shortage of memory in the system fails the bio, and every later flush.
    TransientFails "transient-fails" "an interrupted request fails its bio and every later flush"
    /// A write of the kernel with FUA is answered before it is durable.
    UblkFuaVolatile "ublk-fua-volatile" "a durable write to a block device of the kernel is not durable"
    /// A lane that runs the queue it shares does not wake the others if it has got bios itself.
    WakesForgotten "wakes-forgotten" "threads sleep on although another one has brought their bios back"
    /// The last woken thread to run does not look for the bios that others have left to it.
    WokenForgetBios "woken-forget-bios" "a bio that a thread left to one that was woken is never handed to the disk"
}

#[cfg(feature = "defects")]
static ON: [core::sync::atomic::AtomicU64; 2] = [const { core::sync::atomic::AtomicU64::new(0) }; 2];

#[cfg(feature = "defects")]
const _: () = assert!(Defect::ALL.len() <= 128);

/// Whether the defect is put back. Always `false` without the feature `defects`.
#[inline(always)]
pub fn is_on(defect: Defect) -> bool {
    #[cfg(feature = "defects")]
    return ON[defect as usize / 64].load(core::sync::atomic::Ordering::Relaxed) & 1 << (defect as u8 % 64)
        != 0;
    #[cfg(not(feature = "defects"))]
    {
        let _ = defect;
        false
    }
}

/// Whether defects can be put back in this build: with the feature `defects`.
pub const AVAILABLE: bool = cfg!(feature = "defects");

/// Puts a defect back or removes it, for the whole process, if this build can.
pub fn put_back(defect: Defect, on: bool) {
    #[cfg(feature = "defects")]
    set(defect, on);
    #[cfg(not(feature = "defects"))]
    let _ = (defect, on);
}

/// Puts a defect back or removes it, for the whole process. Tests that do so run in a process of their own.
#[cfg(feature = "defects")]
pub fn set(defect: Defect, on: bool) {
    use core::sync::atomic::Ordering;
    let (word, bit) = (&ON[defect as usize / 64], 1 << (defect as u8 % 64));
    if on {
        word.fetch_or(bit, Ordering::Relaxed);
    } else {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}
