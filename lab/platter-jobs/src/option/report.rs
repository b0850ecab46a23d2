//! What is measured and written down.

use super::{COUNT, Row, SWITCH, TEXT, done, idle, planned};
use crate::number::Unit;
use crate::value::Kind;

const LOG: &str = "platter bench io --trace FILE writes each I/O";
const JSON: &str = "--json has the buckets of all latencies";

pub(super) static ROWS: &[Row] = &[
    done("name", TEXT, "", "the job's name"),
    done("description", TEXT, "", "a text about the job"),
    done("gtod_reduce", SWITCH, "0", "no latencies are measured"),
    idle("gtod_cpu", COUNT, "", "reading the clock takes no system call"),
    idle("clocksource", TEXT, "", "the clock is the time-stamp counter where it is reliable"),
    idle("disable_lat", SWITCH, "0", "latencies are measured"),
    idle("disable_clat", SWITCH, "0", "latencies are measured"),
    idle("disable_slat", SWITCH, "0", "latencies are measured"),
    idle("disable_bw_measurement", SWITCH, "0", "rates are measured").or(&["disable_bw"]),
    idle("clat_percentiles", SWITCH, "1", "the report has percentiles"),
    idle("lat_percentiles", SWITCH, "0", "the report has percentiles"),
    idle("slat_percentiles", SWITCH, "0", "the report has percentiles"),
    idle(
        "percentile_list",
        Kind::Floats(20, 0.0, 100.0),
        "1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99",
        "the report has 50, 90, 95, 99, 99.9, 99.99, and JSON all buckets",
    ),
    idle("significant_figures", Kind::Integer(1, 10), "4", "the report has four"),
    idle("disk_util", SWITCH, "1", "the report has the counters of the queue"),
    idle("stats", SWITCH, "1", "every job is in the report"),
    idle(
        "unified_rw_reporting",
        Kind::Word(&["none", "0", "mixed", "1", "both"]),
        "none",
        "the report has each direction and all together",
    ),
    idle("block_error_percentiles", SWITCH, "0", "errors are in the report"),
    done("kb_base", Kind::Word(&["1024", "1000"]), "1024", "what k stands for"),
    idle("unit_base", Kind::Word(&["0", "1", "8"]), "0", "rates are in bytes"),
    idle("per_job_logs", SWITCH, "1", "no logs are written"),
    planned("write_bw_log", Kind::Label, "", "a log of rates", LOG),
    planned("write_iops_log", Kind::Label, "", "a log of I/Os per second", LOG),
    planned("write_lat_log", Kind::Label, "", "a log of latencies", LOG),
    planned("write_hist_log", Kind::Label, "", "a log of histograms of latencies", JSON),
    planned("write_iolog", TEXT, "", "a trace of the I/Os", LOG),
    idle("bwavgtime", COUNT, "500", "no logs are written"),
    idle("iopsavgtime", COUNT, "500", "no logs are written"),
    idle("log_entries", COUNT, "1024", "no logs are written"),
    idle("log_avg_msec", Kind::Time(Unit::Millis), "0", "no logs are written"),
    idle("log_hist_msec", Kind::Time(Unit::Millis), "0", "no logs are written"),
    idle("log_hist_coarseness", Kind::Integer(0, 6), "0", "no logs are written"),
    idle("log_max_value", SWITCH, "0", "no logs are written"),
    idle("log_window_value", Kind::Word(&["avg", "max", "both"]), "avg", "no logs are written"),
    idle("log_offset", SWITCH, "0", "no logs are written"),
    idle("log_prio", SWITCH, "0", "no logs are written"),
    idle("log_issue_time", SWITCH, "0", "no logs are written"),
    idle("log_compression", COUNT, "", "no logs are written"),
    idle("log_compression_cpus", TEXT, "", "no logs are written"),
    idle("log_store_compressed", SWITCH, "0", "no logs are written"),
    idle("log_unix_epoch", SWITCH, "0", "no logs are written"),
    idle("log_alternate_epoch", SWITCH, "0", "no logs are written"),
    idle("log_alternate_epoch_clock_id", COUNT, "", "no logs are written"),
];
