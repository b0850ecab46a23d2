//! Which crate may use which, and that what programs embed does not need the laboratory. Tests may use any.

use crate::tree::{File, HOUSE};

/// The crates, and which of the others each may use.
const FLOORS: &[(&str, &[&[&str]])] = &[
    ("platter-block", &[]),
    ("platter-wait", &[&["platter-block"]]),
    ("platter-elevators", &[&["platter-block"]]),
    ("platter-protocol", &[&["platter-block"]]),
    ("platter-scsi", &[&["platter-block", "platter-wait", "platter-protocol"]]),
    ("platter-nvme", &[&["platter-block", "platter-protocol"]]),
    ("platter-jobs", &[&["platter-block"]]),
    ("platter-traces", &[&["platter-block"]]),
    // The arrays of md as data, without I/O.
    ("platter-md", &[&["platter-block"]]),
    ("platter-stack", &[&["platter-block", "platter-wait", "platter-md"]]),
    ("platter-cache", &[&["platter-block", "platter-stack"]]),
    ("platter-disk", &[&["platter-block", "platter-wait"]]),
    ("platter-sim", &[&["platter-block"]]),
    // Commands and answers of SCSI and NVMe are data, without I/O; drivers make and read them.
    ("platter-remote", &[&["platter-block", "platter-wait", "platter-scsi", "platter-nvme"]]),
    (
        "platter",
        &[PARTS, &["platter-md", "platter-remote", "platter-protocol", "platter-scsi", "platter-nvme"]],
    ),
    ("platter-serve", &[PARTS, &["platter-wait", "platter-remote", "platter-scsi", "platter"]]),
    ("platter-aio", &[&["platter-block", "platter-wait", "platter-disk"]]),
    ("platter-kit", &[PARTS, &["platter-scsi"]]),
    ("platter-crash", &[&["platter-sim"]]),
    ("platter-bench", &[PARTS, &["platter-aio", "platter-remote", "platter-serve", "platter-traces"]]),
    ("platter-repro", &[PARTS, &["platter-bench"]]),
    ("platter-engines", &[PARTS, &["platter-kit", "platter-bench"]]),
    (
        "platter-cli",
        &[
            PARTS,
            &[
                "platter",
                "platter-md",
                "platter-kit",
                "platter-bench",
                "platter-jobs",
                "platter-traces",
                "platter-repro",
                "platter-serve",
                "platter-crash",
            ],
        ],
    ),
    (
        "platter-fuzz",
        &[
            PARTS,
            &["platter", "platter-md", "platter-kit", "platter-bench", "platter-jobs", "platter-remote"],
            &["platter-protocol", "platter-scsi", "platter-nvme", "platter-serve", "platter-traces"],
        ],
    ),
];

/// What the library is made of.
const PARTS: &[&str] = &[
    "platter-block",
    "platter-wait",
    "platter-elevators",
    "platter-stack",
    "platter-cache",
    "platter-disk",
    "platter-sim",
];

/// External crates that the layer itself may use, outside its tests.
const CORE_USES: &[&str] = &["bytes"];

/// The parts that the library may not need.
const OUTSIDE: [&str; 2] = ["bin", "lab"];

/// Simulated disks are a feature of `platter`.
const SIMULATED: &str = "platter-sim";

/// Whether a crate lies in this part of the house.
fn lies_in(files: &[File], part: &str, room: &str) -> bool {
    let manifest = format!("{part}/{room}/Cargo.toml");
    files.iter().any(|file| file.path == manifest)
}

/// The packages that are built with the crate, as its manifest names them.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if section.ends_with("dependencies")
            && section != "dev-dependencies"
            && let Some(end) = line.find(['=', '.', ' '])
            && !line.starts_with('#')
        {
            found.push(&line[..end]);
        }
    }
    found
}

/// All problems of the crates' dependencies.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let parts: Vec<&str> = file.path.split('/').collect();
        let [part, room, "Cargo.toml"] = parts[..] else { continue };
        if !HOUSE.contains(&part) {
            continue;
        }
        let Some((_, allowed)) = FLOORS.iter().find(|(name, _)| *name == room) else {
            problems.push(format!("{}: a room without a floor; give it one in tidy", file.path));
            continue;
        };
        for used in dependencies(&file.text) {
            if used.starts_with("platter") && !allowed.concat().contains(&used) {
                problems.push(format!("{}: {room} may not use {used}", file.path));
            }
            if part == "lib"
                && OUTSIDE.iter().any(|outside| lies_in(files, outside, used))
                && used != SIMULATED
            {
                problems.push(format!("{}: the library may not need {used}", file.path));
            }
            if room == "platter-block" && !CORE_USES.contains(&used) {
                problems.push(format!("{}: the layer itself may not use {used}", file.path));
            }
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            problems.push(format!("{}: without the workspace's lints", file.path));
        }
    }
    problems
}

#[test]
fn a_room_that_uses_one_above_it_is_found() {
    let of = |part: &str, room: &str, text: &str| {
        File::new(format!("{part}/{room}/Cargo.toml"), format!("{text}\n[lints]\nworkspace = true\n"))
    };
    let manifest = |room: &str, text: &str| of("lib", room, text);
    let files = [
        manifest(
            "platter-block",
            "[dependencies]\nbytes = \"1\"\n[dev-dependencies]\nproptest.workspace = true",
        ),
        manifest("platter-stack", "[dependencies]\nplatter-disk.workspace = true"),
        manifest("platter-attic", ""),
        manifest("platter", "[dependencies]\nplatter-sim.workspace = true\nplatter-kit.workspace = true"),
        of("lab", "platter-sim", ""),
        of("lab", "platter-kit", "[dependencies]\nplatter-sim.workspace = true"),
    ];
    let found = problems(&files);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].contains("platter-stack may not use platter-disk"));
    assert!(found[3].contains("the library may not need platter-kit"));
}
