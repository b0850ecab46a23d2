//! A short run of every format: its committed corpus, then the first runs of a fixed seed. `cargo run -p
//! platter-fuzz` continues from there.

use platter_fuzz::campaign::{Campaign, committed, inputs_in};
use platter_fuzz::targets;

const SEED: u64 = 1;

/// Runs of one format: a second or less.
const RUNS: u64 = 1500;

fn fuzz(name: &str) {
    let target = targets::by_name(name).unwrap();
    let corpus = inputs_in(&committed().join(name)).unwrap();
    assert!(!corpus.is_empty(), "the corpus of {name} is committed");
    let inputs = corpus.len() as u64;
    let mut campaign = Campaign::new(target, SEED, corpus);
    let found = campaign.replay().and_then(|()| campaign.runs(0, |run| run < RUNS));
    if let Err(finding) = found {
        let again = format!("cargo run -p platter-fuzz -- --target {name} --seed {SEED}");
        panic!("{name}, run {:?} of seed {SEED}: {}\nsee it again with: {again}", finding.run, finding.wrong);
    }
    let tally = campaign.tally();
    assert_eq!(tally.runs, inputs + RUNS);
    // Inputs that are all refused at the door would find nothing behind it.
    assert!(tally.accepted * 20 > tally.runs, "{tally:?}");
    assert!(tally.accepted < tally.runs, "{tally:?}");
}

/// A test for each format.
macro_rules! formats {
    ($($name:ident $target:literal)*) => {
        $(
            #[test]
            fn $name() {
                fuzz($target);
            }
        )*

        #[test]
        fn every_format_has_its_test() {
            let names: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
            assert_eq!(names, [$($target),*]);
        }
    };
}

formats! {
    specs "spec"
    values "value"
    partition_tables "partition"
    array_records "record"
    md_superblocks "md"
    md_logs "md-log"
    arrays "assemble"
    signatures "signature"
    disksim_files "disksim"
    traces_of_service_times "service-trace"
    traces_of_reads "read-trace"
    maps_of_rescues "map"
    job_files "job-file"
    traces_of_other_tools "trace"
    blocks_that_are_verified "blocks"
    mount_tables "mounts"
    lists_of_locks "locks"
    attributes_of_disks "sysfs"
    configurations "config"
    requests_of_control "control"
    nbd_handshakes "nbd-handshake"
    nbd_requests "nbd-request"
    nbd_answers "nbd-answer"
    nbd_replies "nbd-reply"
    requests_of_guests "vhost-request"
    messages_of_front_ends "vhost-message"
    logins_of_iscsi "iscsi-login"
    sessions_of_iscsi "iscsi-session"
    commands_of_scsi "scsi-command"
    data_of_scsi_devices "scsi-data"
    commands_of_nvme "nvme-command"
    data_of_nvme_controllers "nvme-data"
}
