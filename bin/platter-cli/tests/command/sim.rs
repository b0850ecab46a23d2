//! `platter sim`: the catalogue, the page of a disk, comparisons with traces.

use crate::run::{fails_saying, json, ok, text};
use std::fs;
use std::path::PathBuf;

#[test]
fn disks_and_buses_are_listed_with_their_sizes() {
    let list = json(&["sim", "list"]);
    let disk = |name: &str| list.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    assert_eq!(disk("man3367mp")["kind"], "mechanical");
    assert_eq!(disk("man3367mp")["size"], 71_771_688u64 * 512);
    assert_eq!(disk("nvme_ssd")["kind"], "flash");
    let buses = json(&["sim", "list", "--buses"]);
    let ultra = buses.as_array().unwrap().iter().find(|row| row["name"] == "ultra160").unwrap();
    assert_eq!(ultra["bytes_per_s"], 160_000_000);
    assert!(ok(&["sim", "list", "--buses"]).contains("pci32_33: "));
}

#[test]
fn a_disk_is_shown_with_sources_and_what_follows() {
    let shown = json(&["sim", "show", "cheetah9lp"]);
    for key in ["name", "summary", "kind", "size", "queue", "values", "derived"] {
        assert!(!shown[key].is_null(), "{key}");
    }
    let values = shown["values"].as_array().unwrap();
    assert!(values.len() > 40);
    for value in values {
        for key in ["group", "name", "value", "unit", "source"] {
            assert!(value[key].is_string(), "{key} of {value}");
        }
        assert!(value["source"].as_str().unwrap().len() > 4, "{value}");
    }
    let derived = &shown["derived"];
    let seek = derived["average_seek_ms"].as_f64().unwrap();
    assert!((5.4..5.6).contains(&seek), "{seek}");
    assert!((derived["rotation_ms"].as_f64().unwrap() - 5.973).abs() < 0.001);
    let zones = derived["zones"].as_array().unwrap();
    assert_eq!(zones[0]["sectors_per_track"], 254);
    let media = zones[0]["media_mb_per_s"].as_f64().unwrap();
    assert!((media - 254.0 * 512.0 * 10_045.0 / 60e6).abs() < 0.01, "{media}");
    assert!(zones[0]["sustained_mb_per_s"].as_f64().unwrap() < media);
    let interface = derived["interface_mb_per_s"].as_f64().unwrap();
    assert!((interface - 512.0 / 105.0).abs() < 0.01, "{interface}");
    let flash = json(&["sim", "show", "sata_ssd"]);
    assert!(flash["derived"]["over_provisioning_pct"].as_f64().unwrap() >= 7.3);
    let said = ok(&["sim", "show", "x15"]);
    assert!(
        said.contains("15000") && said.contains("estimated") && said.contains("sustained rate"),
        "{said}"
    );
}

/// The first disk of the manual reads slower than its medium delivers. The page of the disk and a run on it give the same
/// rate and the same reason, and the run keeps to it.
#[test]
fn a_slow_interface_is_named_with_its_rate_where_figures_depend_on_it() {
    let limit =
        "interface: at most 4.88 MB/s (4.65 MiB/s), less than the medium: the bus on which it was validated";
    let said = ok(&["sim", "show", "cheetah9lp"]);
    assert!(said.contains(limit), "{said}");
    let run = |on| json(&["bench", "io", "--on", on, "--rw", "read", "--bs", "64k", "--number_ios", "200"]);
    let slow = run("sim(cheetah9lp)");
    assert_eq!(
        format!("interface: {}", slow["devices"][0]["facts"]["interface"].as_str().unwrap())[..limit.len()],
        *limit
    );
    assert!((4.4..=4.65).contains(&slow["mib_per_s"].as_f64().unwrap()), "{slow:#}");
    let fast = run("sim(cheetah9lp, bus=ultra160:0)");
    assert!(fast["mib_per_s"].as_f64().unwrap() > 12.0 && fast["devices"][0]["facts"]["interface"].is_null());
}

/// An erased flash disk answers reads without its flash: figures of a disk that was never written to are
/// useless.
#[test]
fn simulated_flash_is_used_unless_it_is_said_to_be_erased() {
    let run = |on: &str| json(&["bench", "io", "--on", on, "--rw", "randread", "--number_ios", "500"]);
    for disk in ["sata_ssd", "nvme_ssd"] {
        let used = run(&format!("sim({disk})"));
        let erased = run(&format!("sim({disk}, start=erased)"));
        let start =
            |result: &serde_json::Value| result["devices"][0]["facts"]["start"].as_str().unwrap().to_owned();
        assert!(start(&used).starts_with("steady") && start(&erased).starts_with("erased"));
        // A read of flash takes 60 us.
        let p50 = |result: &serde_json::Value| result["lat_p50_ns"].as_u64().unwrap();
        assert!(p50(&used) > 60_000 && p50(&erased) < 40_000, "{} {}", p50(&used), p50(&erased));
        assert!(ok(&["sim", "show", disk]).contains("start: steady"));
    }
}

#[test]
fn reports_are_pages_with_plots() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("disk.html");
    ok(&["sim", "show", "ibm18es", "--report", text(&page)]);
    let html = fs::read_to_string(&page).unwrap();
    for words in ["Seek time by distance", "Zones", "<svg", "DiskSim"] {
        assert!(html.contains(words), "{words}");
    }
    let nowhere = folder.path().join("none/disk.html");
    fails_saying(1, &["sim", "show", "ideal", "--report", text(&nowhere)], &["cannot write"]);
}

#[test]
fn a_disk_is_compared_with_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (folder.path().join("own.trace"), folder.path().join("own.html"));
    // Not measured: plausible times.
    fs::write(&trace, "R Miss 1000 8 9000 5000\nW Miss 500000 8 1400 5000\nR Miss 900000 16 11000 0\n")
        .unwrap();
    let args = ["sim", "validate", "--disk", "cheetah9lp", "--trace", text(&trace)];
    let result = json(&[&args[..], &["--report", text(&page)]].concat());
    for key in ["demerit", "real_mean_ms", "sim_mean_ms", "rms_ms"] {
        for end in ["", "_read", "_write"] {
            assert!(result[format!("{key}{end}")].is_number(), "{key}{end} in {result}");
        }
    }
    assert!(result["within_250us_read_pct"].is_number() && result["correlation"].is_number());
    assert!(result["disksim_mean_ms"].is_null() && result["disksim_rms_ms"].is_null(), "{result}");
    assert_eq!((&result["requests"], &result["requests_read"]), (&3.into(), &2.into()));
    let mean = result["real_mean_ms"].as_f64().unwrap();
    assert!((mean - 21.4 / 3.0).abs() < 1e-9, "{mean}");
    assert!(fs::read_to_string(&page).unwrap().contains("Service times"));
    assert!(ok(&args).contains("demerit"));
    // Without writes there is nothing that could match.
    fs::write(&trace, "R Miss 1000 8 9000 5000\nR Miss 900000 16 11000 0\n").unwrap();
    let result = json(&args);
    for key in ["demerit", "real_mean_ms", "sim_mean_ms", "rms_ms"] {
        assert!(result[format!("{key}_write")].is_null(), "{key} in {result}");
        assert!(result[format!("{key}_read")].is_number(), "{key} in {result}");
    }
}

#[test]
fn wrong_input_is_named_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("bad.trace");
    fs::write(&trace, "R Miss 1000 8 9000 5000\nQ Miss 1 1 1 1\n").unwrap();
    let validate = |disk: &str, trace: &str, words: &[&str]| {
        fails_saying(2, &["sim", "validate", "--disk", disk, "--trace", trace], words);
    };
    validate("cheetah9lp", text(&trace), &["bad.trace:2", "expected `R` or `W`", "found `Q`"]);
    validate("cheetah9lp", "missing.trace", &["missing.trace", "expected a file"]);
    validate("sata_ssd", text(&trace), &["sata_ssd", "mechanical"]);
    validate("cheetah9lq", text(&trace), &["cheetah9lq", "did you mean `cheetah9lp`", "ibm18es"]);
    let disk = folder.path().join("bad.diskspecs");
    fs::write(&disk, "disksim_disk x {\n  Model = 7\n}\n").unwrap();
    validate(text(&disk), text(&trace), &["bad.diskspecs:2", "expected"]);
    fails_saying(2, &["sim", "show", text(&disk)], &["bad.diskspecs:2", "expected"]);
    fails_saying(2, &["sim", "show", "x15", "--parv", text(&disk)], &["--parv", "x15"]);
    fails_saying(2, &["info", &format!("sim({})", text(&disk))], &["bad.diskspecs:2", "expected"]);
}

#[test]
fn real_disks_are_near_their_traces() {
    let Some(folder) = disks() else { return };
    for (disk, file) in [("hp_c2247a", "hp_c2247a"), ("cheetah9lp", "cheetah9LP"), ("ibm18es", "ibm18es")] {
        let (specs, trace) = (folder.join(format!("{file}.diskspecs")), folder.join(format!("{file}.trace")));
        let of = |disk: &str| json(&["sim", "validate", "--disk", disk, "--trace", text(&trace)]);
        let (mut named, mut read) = (of(disk), of(text(&specs)));
        assert!(named["demerit"].as_f64().unwrap() < 0.05, "{named}");
        let [ours, theirs] = ["sim_mean_ms", "disksim_mean_ms"].map(|key| named[key].as_f64().unwrap());
        assert!((ours / theirs - 1.0).abs() < 0.001 && named["disksim_rms_ms_write"].is_number(), "{named}");
        (named["disk"], read["disk"]) = (().into(), ().into());
        assert_eq!(named, read, "{disk}");
    }
}

/// The parameter files and traces of real disks; if there are none, prints a line that says so and returns
/// `None`.
fn disks() -> Option<PathBuf> {
    let has_disks = |folder: &PathBuf| folder.join("cheetah9LP.diskspecs").exists();
    let found = match std::env::var_os("PLATTER_DISKS") {
        Some(folder) => Some(PathBuf::from(folder)).filter(has_disks),
        None => {
            let above = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
            let neighbours = fs::read_dir(above).into_iter().flatten().flatten();
            neighbours.map(|neighbour| neighbour.path().join("reference/disks")).find(has_disks)
        }
    };
    if found.is_none() {
        println!("skipped: no parameter files of disks (set PLATTER_DISKS)");
    }
    found
}

/// `ordered=` is shown where the disk keeps the order, refused where it cannot, and shown as draining in layers that drain.
#[test]
fn the_order_of_barriers_is_shown_and_refused() {
    let disk = "sim(man3367mp, elevator=noop, ordered=tag)";
    let part = json(&["info", &format!("partition(offset=1M, {disk})")]);
    assert_eq!(part[0]["below"][0]["facts"]["barriers"], "tag");
    assert!(part[0]["facts"]["barriers"].is_null(), "{part}");
    let array = json(&["info", &format!("raid0({disk}, {disk})")]);
    let of_layer = array[0]["facts"]["barriers"].as_str().unwrap();
    assert!(of_layer.starts_with("drain in this layer"), "{of_layer}");
    // The error names device, parameter and what the device supports, and no I/O.
    let refused =
        ["ram: not supported by the device; ordered=tag: ", "takes no ordered tags", "only ordered=drain"];
    fails_saying(3, &["info", "ram(1M, ordered=tag)"], &refused);
    fails_saying(2, &["info", "sim(man3367mp, ordered=tags)"], &["ordered", "drain", "tag"]);
}

#[test]
fn hosts_have_the_source_of_every_parameter() {
    let help = ok(&["sim", "host", "show", "--help"]);
    for host in ["dm2002", "dsw2002", "dale2002", "intel2004", "sgi2004"] {
        assert!(help.contains(host), "{help}");
        let shown = json(&["sim", "host", "show", host]);
        assert_eq!(shown["name"], host);
        let parameters = shown["parameters"].as_array().unwrap();
        assert!(parameters.len() >= 10, "{host}");
        for each in parameters {
            assert!(!each["source"].as_str().unwrap().is_empty(), "{each}");
        }
        let said = ok(&["sim", "host", "show", host]);
        assert!(said.contains("processors") && said.contains("function of a command"), "{said}");
    }
}
