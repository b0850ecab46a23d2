//! Statements in words of the five documents that can be tested, or that a reader may expect to be.

use super::Shown::{By, Not};
use super::{Shown, Statement};

const OLS: &str = "Wong and others, Improving Linux Block I/O for Enterprise Workloads, OLS 2002";
const DALE: &str = "Dale, direct-to-BIO for O_DIRECT, linux-kernel, 10 July 2002";
const STAELIN: &str = "Staelin, Disk I/O in Linux, HPL-2002-352, 2002";
const KERNELTRAP: &str = "Random file I/O regressions in 2.6, KernelTrap, 4 May 2004";
const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";

const DSW: Shown = Not("of the decision-support workload: experiment dsw2002");
const AXBOE: Shown = Not("experiment axboe2004");

const fn says(document: &'static str, place: &'static str, says: &'static str, shown: Shown) -> Statement {
    Statement { document, place, says, shown }
}

#[rustfmt::skip]
pub(super) const STATEMENTS: &[Statement] = &[
    says(OLS, "3", "bounce_end_io_read is the most expensive function of non-idle time on Baseline", DSW),
    says(OLS, "4", "without bounce buffers idle time of the microbenchmark falls from 64 to about 21 %", By("dm2002", "sb-read-idle")),
    says(OLS, "4", "without bounce buffers __make_request becomes the most expensive function", DSW),
    says(OLS, "5", "the lock that is contended is the io_request_lock, in the function that costs most", DSW),
    says(OLS, "5", "queues of different devices are independent and can be filled at the same time", By("dm2002", "sbi-read-rate")),
    says(OLS, "5", "with a lock per queue the idle time rises, because spinning falls", By("dm2002", "sbi-read-idle")),
    says(OLS, "5", "with a lock per queue the contention of the locks of all queues together falls too", DSW),
    says(OLS, "6", "512-byte units are merged again, but each costs; page-sized units are an eighth", By("dm2002", "submit_bh-rawvary")),
    says(OLS, "6", "page-sized units raise the rate slightly and the idle time much", By("dm2002", "sbir-read-idle")),
    says(OLS, "7", "without readv of the raw device each buffer of a vector is a read of its own that is waited for", By("ols2002", "waits-of-readv")),
    says(OLS, "7", "with it the vector is one I/O: rate and idle time rise", By("dm2002", "sbirv-rate-change")),
    says(OLS, "8", "a lighter kiobuf lets more raw devices be open with the same memory", By("ols2002", "light-kiobuf-bytes")),
    says(OLS, "9.2", "building commands before the queue's lock is taken may improve interrupt response", Not("considered and not measured in the paper: there is nothing to compare with")),
    says(OLS, "9.2", "a lock per adapter, as in 2.5, is coarser than the patch's lock per device", Not("the paper gives no measurement of the difference")),
    says(OLS, "9.4", "2.5.17 outperforms SBIR for reads", By("dm2002", "2517-read-rate")),
    says(OLS, "9.4", "2.5.17 does worse than SBIRV with readv", By("dm2002", "2517-readv-rate")),
    says(OLS, "9.4", "small I/O is slightly slower through a bio than through a buffer head", Not("about instructions of kernels that do not run here, and not measured in the paper")),
    says(OLS, "9.4", "one bio for each buffer head is not efficient", Not("not measured in the paper; the units of large and small bios are those of dm2002 and ols2002")),
    says(DALE, "Morton, quoted", "processor time with direct-to-BIO is about that of the kiovec", By("dale2002", "cpu-128k")),
    says(DALE, "Morton, quoted", "the bandwidth of chunks of 128 KiB is the same", By("dale2002", "write-128k")),
    says(DALE, "Morton, quoted", "writes of 1 MiB are faster", By("dale2002", "write-1m")),
    says(DALE, "Morton, quoted", "the margin widens on hardware with more requests in flight", Not("an expectation without a measurement")),
    says(DALE, "the results", "the block layer of 2.5 is far superior to that of 2.4", By("dale2002", "2.5-normal-rate")),
    says(DALE, "the results", "processor load with and without direct-to-BIO hardly differs", By("dale2002", "bio-direct-idle")),
    says(DALE, "the results", "with direct-to-BIO Fibre Channel is used to 100 %", By("dale2002", "bio-direct-rate")),
    says(DALE, "fairness", "on 2.5.25 all threads complete at almost the same time", By("dale2002", "2.5-spread")),
    says(DALE, "fairness", "on 2.4.19-pre8aa2 threads are not served equally", By("dale2002", "2.4-spread")),
    says(STAELIN, "5.1, Figure 1", "bandwidth improves with the number of disks and the size of requests", By("staelin2002", "jbod-grows")),
    says(STAELIN, "5.1, Figure 1", "the peak is reached with requests as small as 4 MB", By("staelin2002", "disk-at-4m")),
    says(STAELIN, "5.1, Figure 1", "three disks give nearly three times a disk", By("staelin2002", "three-disks")),
    says(STAELIN, "2", "large random requests behave like sequential ones", By("staelin2002", "large-sequential")),
    says(STAELIN, "5.2, Figure 2", "for large requests the stripe set of Windows is above the disks by themselves", By("staelin2002", "windows-large")),
    says(STAELIN, "5.3", "readahead past the end of a chunk is a gross waste of bandwidth", By("staelin2002", "overrun")),
    says(STAELIN, "5.3, Figure 3", "bandwidth of the kernel's array improves with the number of disks and the size of requests", By("staelin2002", "kernel-grows")),
    says(STAELIN, "5.3, under Figure 3", "the kernel's array peaks at 3/4 of its sequential bandwidth", By("staelin2002", "sequential-peak")),
    says(STAELIN, "5.3, under Figure 3", "the kernel's array does not make full use of its disks", By("staelin2002", "kernel-idle")),
    says(STAELIN, "5.3, Figure 4", "from 64 to 512 KB the stripe makes little difference", By("staelin2002", "kernel-flat")),
    says(STAELIN, "5.3, Figure 4", "stripes of 128 KB are slightly better for small chunks", By("staelin2002", "kernel-128k")),
    says(STAELIN, "4", "the largest rate of csraid is comparable to that of the disks", By("staelin2002", "csraid-jbod")),
    says(STAELIN, "5.4, Figures 5 and 6", "csraid improves on the kernel's array, synchronous and asynchronous", By("staelin2002", "csraid-sync-ahead")),
    says(STAELIN, "5.4, Figure 7", "stripes larger than the chunk can harm; small ones are recommended", By("staelin2002", "stripe-above-chunk")),
    says(STAELIN, "5.5, Figure 8", "csraid generally outperforms the kernel's array", By("staelin2002", "csraid-ahead")),
    says(STAELIN, "5.5, Figure 8", "csraid is far more stable than the kernel's array", By("staelin2002", "csraid-steady")),
    says(STAELIN, "5.5, Figure 8", "below 4 MB the disks by themselves are above the stripe set of Windows", By("staelin2002", "windows-small")),
    says(STAELIN, "5.5, Figure 8", "csraid is generally below the stripe set of Windows", By("staelin2002", "windows-csraid")),
    says(STAELIN, "3", "2.4 serves requests to one file one after the other", Not("a property of the kernel: the personalities of the kernel and of csraid-posix are built on it")),
    says(STAELIN, "3, 5.4", "independent requests at once use several disks", By("staelin2002", "several-ahead")),
    says(KERNELTRAP, "A. Kopytov, 2 May 2004", "2.4 is faster than 2.6 with every elevator", By("sysbench2004", "order-2.4-as")),
    says(KERNELTRAP, "A. Kopytov, 2 May 2004", "anticipatory gives the best results of 2.6", By("sysbench2004", "order-as-deadline")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "2.6 is not improved by increasing nr_requests", By("sysbench2004", "requests-no-help")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "2.6 is not improved by relaxing deadlines", By("sysbench2004", "expiry-no-help")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "2.6 is not improved by turning off readahead", By("sysbench2004", "off-no-help")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "2.6 submits much of the I/O in requests of 4 KB", By("sysbench2004", "single-pages")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "once readahead is off, a read of 16 KB is four synchronous reads that cannot be merged", By("readahead", "four-in-turn")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "what remains may be 2.6's smaller nr_requests, the IDE driver or the tuning of elevators", Not("a guess that was not followed up; the model has no remaining loss to explain (see morton-fix)")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "anticipatory can often beat deadline for random reads, writes and fsync", By("sysbench2004", "order-as-deadline")),
    says(KERNELTRAP, "N. Piggin, 3 May 2004", "anticipatory is bad for this workload on disks with TCQ", By("sysbench2004", "tags-as")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 11:08", "readahead turns itself off to avoid lookups where the file is cached", By("readahead", "lookups-off")),
    says(KERNELTRAP, "R. Pai, 3 May 2004, 13:22", "lazy readahead has no part in it: overlapping reads of one file close the window", By("readahead", "shared-singles")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 13:57", "enough cached pages turn readahead off", By("readahead", "closed-by-hits")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 13:57", "readahead that is off is not turned on again", By("readahead", "stays-off")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 14:59", "readahead is the only means by which 2.6 builds bios of several pages", By("sysbench2004", "off-single")),
    says(KERNELTRAP, "N. Piggin, 4 May 2004, 9:58", "the size of the read is an accurate hint for the window", By("readahead", "size-whole")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 17:10", "windows of the size of the read cause many lookups where the file is cached", By("readahead", "lookups-size")),
    says(KERNELTRAP, "R. Pai, 3 May 2004, 17:50", "large random reads of iozone are a steady stream of large I/O", By("readahead", "iozone-2.6.5")),
    says(KERNELTRAP, "R. Pai, 3 May 2004, 17:50", "so are those of decision support", By("readahead", "dss-2.6.5")),
    says(KERNELTRAP, "R. Pai, 3 May 2004, 17:50", "two threads that read pages 100 and 200 on close the window", By("readahead", "pai-example")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 23:29", "shared files upset the readahead of 2.6 more than that of 2.4", By("sysbench2004", "shared-2.4")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 23:29", "a semaphore around the read fixes it", By("sysbench2004", "semaphore-time")),
    says(KERNELTRAP, "A. Morton, 3 May 2004, 23:29", "a private copy of the state fixes it", By("sysbench2004", "private-cures")),
    says(KERNELTRAP, "comment, 5 May 2004", "a table of two streams would recognise the example", Not("a proposal of a reader; no kernel of the time had it")),
    says(TOKYO, "2.4 IO scheduling", "elevator_linus sorts and merges in O(n)", AXBOE),
    says(TOKYO, "Scalability components", "the io_request_lock is contended", By("dm2002", "sb-read-rate")),
    says(TOKYO, "Scalability components", "request allocation of 2.4 wastes memory and fails under pressure", AXBOE),
    says(TOKYO, "deadline scheduler", "deadline sorts in O(log n) and merges in O(1)", AXBOE),
    says(TOKYO, "Anticipatory scheduler", "anticipatory batches reads and writes and performs well", AXBOE),
    says(TOKYO, "CFQ scheduler", "CFQ is fair to readers", AXBOE),
    says(TOKYO, "CFQ scheduler", "CFQ is fair to writers", AXBOE),
    says(TOKYO, "CFQ scheduler", "CFQ groups by process, by user or by other keys", AXBOE),
    says(TOKYO, "IO schedulers", "elevators can be switched at run time", AXBOE),
    says(TOKYO, "IO Barriers", "barriers are soft or hard, by tags or by flushes of the cache", AXBOE),
    says(TOKYO, "Plugging", "plugging was perfect until systems with many processors and disks", By("unplug2004", "intel-list")),
    says(TOKYO, "Plugging", "a plug for each device removes the limit", By("unplug2004", "intel-per-device")),
    says(TOKYO, "Linux-2.7", "CFQ gets I/O priorities", AXBOE),
];
