use super::*;
use crate::Plan;
use crate::value::Amount;
use serde_json::json;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

/// Files and variables of a test.
#[derive(Default)]
struct Made {
    files: HashMap<PathBuf, Vec<u8>>,
    variables: HashMap<&'static str, &'static str>,
}

impl Made {
    fn with(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Surroundings for Made {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|&value| value.to_owned())
    }

    fn is_device(&self, path: &Path) -> bool {
        path == Path::new("/dev/sdx")
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn memory_mib(&self) -> u64 {
        1000
    }

    fn processors(&self) -> u64 {
        2
    }
}

fn parse(text: &str) -> Result<JobFile, JobFileError> {
    read(&["j.fio"], &Made::default().with("j.fio", text))
}

fn plan(text: &str) -> Result<Plan, JobFileError> {
    parse(text).and_then(|file| Plan::new(file, &[]))
}

fn error(text: &str) -> String {
    plan(text).unwrap_err().to_string()
}

/// The value of an option of the first job, and the warnings.
fn first(option: &str, text: &str) -> (Option<Value>, String) {
    let file = parse(text).unwrap();
    let warnings: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
    (file.jobs[0].value(option), warnings.join("\n"))
}

#[test]
fn global_sections_change_the_defaults_of_later_jobs() {
    let text = "; c\n# c\n[global]\nbs=8k\n\n[a]\n[globals]\niodepth=4\n[b]\nbs=16k\n[global]\nrw=write\n";
    let jobs = parse(text).unwrap().jobs;
    let of = |at: usize, name: &str| json!(jobs[at].value(name).unwrap());
    let names = parse("[global]\nname=x\n[a]\n[b]\nname=c\n").unwrap().jobs;
    assert_eq!((names[0].name(), names[1].name()), ("a", "c"));
    assert_eq!(jobs.len(), 2);
    assert_eq!((of(0, "bs")["read"][0].clone(), of(0, "iodepth")), (8192.into(), 1.into()));
    assert_eq!((of(1, "bs")["read"][0].clone(), of(1, "iodepth")), (16384.into(), 4.into()));
    assert_eq!((of(1, "rw"), jobs[1].line_of("iodepth").unwrap().line), ("read".into(), 8));
    assert_eq!(jobs[0].given("iodepth"), None);
}

#[test]
fn every_error_has_file_line_option_and_what_to_do() {
    for (text, expected) in [
        ("bs=4k\n", "j.fio:1: bs: no section comes before the option; write [global] or [NAME] above it"),
        ("[a]\n\nbss=4k", "j.fio:3: bss: fio has no such option; did you mean bs?"),
        ("[a]\nbs", "j.fio:2: bs: the value is missing; give up to three sizes from 1: reads,writes,trims"),
        ("[a]\niodepth=0", "j.fio:2: iodepth: 0 is not from 1 to 9223372036854775807; give a number from 1"),
        ("[a]\ndirect=2", "j.fio:2: direct: 2 is neither 0 nor 1; give 0 or 1"),
        ("[a]\n=4", "j.fio:2: the line has no option before =; write OPTION=VALUE"),
        (
            "[a]\ncgroup=x",
            "j.fio:2: cgroup: a job file may not have this option here; start platter in the cgroup, as with systemd-run --scope",
        ),
        (
            "[a]\nioengine=net",
            "j.fio:2: ioengine: the engine net is not here; it does no block I/O; leave the job out",
        ),
        (
            "[a]\nbs=${X",
            "j.fio:2: bs: the } of a ${ is missing; a variable is ${NAME}; give up to three sizes from 1: reads,writes,trims",
        ),
        (
            "[a]\ntime_based",
            "j.fio:2: time_based: it needs a runtime, without which fio would leave it out; give runtime=",
        ),
        ("[a]\nwait_for=b", "j.fio:2: wait_for: no earlier job is called b; give the name of a job above"),
        (
            "[a]\n[a]\n[b]\nwait_for=a",
            "j.fio:4: wait_for: several jobs are called a; give them names of their own",
        ),
    ] {
        assert_eq!(error(text), expected);
    }
    assert!(error("[a\nbs=4k").starts_with("j.fio:1: the ] of the section [a is missing"));
    assert!(error(&format!("[a]\n;{}", "x".repeat(70_000))).contains("j.fio:2: the line has 70001 bytes"));
    assert!(error(&format!("[{}]", "x".repeat(256))).contains("has 256 bytes"));
    assert!(error("[a]\nbs=9223372036854775808").contains("9223372036854775808 is not from 1 to"));
    assert!(error("[a]\nnumjobs=131072\n[b]").contains("more than 131072 jobs"));
    assert!(error("[a]\nbs=\u{1b}[31m").chars().all(|c| !c.is_control()));
    let missing = read(&["no.fio"], &Made::default()).unwrap_err().to_string();
    assert!(missing.starts_with("no.fio: no.fio cannot be read"), "{missing}");
}

#[test]
fn what_fio_would_read_otherwise_is_warned_of() {
    for (option, line, value, warning) in [
        ("io_size", "io_size = 64k", Some(Value::Amount(Amount::Bytes(65536))), "leave out a suffix"),
        ("rw", "rw = write", None, "fio would refuse the line"),
        ("bs", "bs=64k # note", None, "the text after the value is ignored"),
        ("iodepth", "iodepth=64 # note", Some(Value::Integer(64)), "ignored, here as by fio"),
        ("size", "size=(4*1024)", Some(Value::Amount(Amount::Bytes(4096))), "without arithmetic"),
        ("size", "size=1m-4k", Some(Value::Amount(Amount::Bytes(1044480))), "fio would read 4096"),
        ("size", "size=4kib", Some(Value::Amount(Amount::Bytes(4000))), "three-letter"),
        ("filename", "filename=a # b", None, "put it on a line of its own"),
    ] {
        let (read, warnings) = first(option, &format!("[a]\n{line}\n"));
        assert!(warnings.starts_with("j.fio:2: ") && warnings.contains(warning), "{line}: {warnings}");
        assert!(value.is_none() || read == value, "{line}: {read:?}");
    }
    for line in ["bs=64k", "bs =64k", "io_size=$pagesize", "rw=write", "thread", "stonewall=0"] {
        assert_eq!(first("bs", &format!("[a]\n{line}\n")).1, "", "{line}");
    }
}

#[test]
fn variables_and_words_are_replaced_and_computed() {
    let made = Made { variables: [("K", "4k"), ("RW", "randread")].into(), ..Made::default() };
    let text =
        "[a]\nrw=${RW}\nio_size=$pagesize*4\nsize=10*$mb_memory*$ncpus\nbs=2*${K}\nfilename=${NO}x${K}\n";
    let file = read(&["j"], &made.with("j", text)).unwrap();
    let of = |name: &str| json!(file.jobs[0].value(name).unwrap());
    assert_eq!((of("rw"), of("io_size"), of("size")), ("randread".into(), 16384.into(), 20_000.into()));
    assert_eq!((of("bs")["write"][0].clone(), of("filename")[0].clone()), (8192.into(), "x4k".into()));
    let warnings: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.iter().any(|w| w.contains("bs: computed: 8192; fio would read 2")), "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("the variable NO is not set")), "{warnings:?}");
    assert!(!warnings.iter().any(|w| w.contains("rw")), "{warnings:?}");
}

#[test]
fn the_base_of_k_holds_for_a_whole_section() {
    let (value, _) = first("size", "[a]\nsize=4k\nkb_base=1000\n");
    assert_eq!(value, Some(Value::Amount(Amount::Bytes(4000))));
    let jobs = parse("[global]\nkb_base=1000\n[a]\nsize=4k\n[b]\nkb_base=1024\nsize=4k\n").unwrap().jobs;
    let sizes: Vec<_> = jobs.iter().map(|job| json!(job.value("size").unwrap())).collect();
    assert_eq!(sizes, [4000, 4096]);
}

#[test]
fn includes_belong_to_the_section_and_may_not_go_in_circles() {
    let made = Made::default()
        .with("d/j.fio", "[global]\ninclude opts\n[a]\ninclude more.inc\nbs=1k\n")
        .with("d/opts", "rw=write\ninclude deep\n")
        .with("d/deep", "iodepth=7\n")
        .with("more.inc", "bs=512\nsize=1m\n");
    let jobs = read(&["d/j.fio"], &made).unwrap().jobs;
    let of = |name: &str| json!(jobs[0].value(name).unwrap());
    assert_eq!((of("rw"), of("iodepth"), of("size")), ("write".into(), 7.into(), 1_048_576.into()));
    assert_eq!(of("bs")["trim"][0], 1024);
    assert_eq!(jobs[0].line_of("iodepth").unwrap().to_string(), "d/deep:1");
    let itself = Made::default().with("a", "[j]\ninclude b\n").with("b", "include a\n");
    assert_eq!(
        read(&["a"], &itself).unwrap_err().to_string(),
        "b:1: a includes itself; leave the include line out"
    );
    let mut deep = Made::default().with("0", "[j]\ninclude 1\n");
    for n in 1..40 {
        deep = deep.with(&n.to_string(), &format!("include {}\n", n + 1));
    }
    assert!(read(&["0"], &deep).unwrap_err().to_string().contains("more than 16 deep"));
    let section = Made::default().with("a", "[j]\ninclude b\n").with("b", "[k]\n");
    assert!(read(&["a"], &section).unwrap_err().to_string().starts_with("b:1: [k] is in a file"));
    let none = read(&["a"], &Made::default().with("a", "[j]\ninclude\n")).unwrap_err().to_string();
    assert!(none.starts_with("a:2: include: fio has no such option"), "{none}");
}

#[test]
fn groups_and_stages_are_those_of_fio() {
    let text = "[global]\nstonewall\n[a]\n[b]\nnumjobs=3\n[c]\nnew_group\nstonewall=0\n[d]\nstonewall=0\ngroup_reporting\n";
    let made = Made::default().with("1", text).with("2", "[e]\n[f]\n");
    let plan = Plan::new(read(&["1", "2"], &made).unwrap(), &[]).unwrap();
    let all: Vec<_> = plan.jobs.iter().map(|job| (job.job.name(), job.first, job.group, job.stage)).collect();
    assert_eq!(
        all,
        [("a", 0, 0, 0), ("b", 1, 1, 1), ("c", 4, 2, 1), ("d", 5, 2, 1), ("e", 6, 3, 2), ("f", 7, 3, 2)]
    );
    let groups = plan.groups();
    assert_eq!((groups.len(), groups[2].together, groups[3].together), (4, true, false));
    let some = Plan::new(read(&["1", "2"], &made).unwrap(), &["d".into(), "f".into()]).unwrap();
    let all: Vec<_> = some.jobs.iter().map(|job| (job.job.name(), job.group, job.stage)).collect();
    assert_eq!(all, [("d", 0, 0), ("f", 1, 1)]);
    let none = Plan::new(read(&["1"], &made).unwrap(), &["x".into()]).unwrap_err().to_string();
    assert_eq!(none, "1: there is no job x; the jobs are a, b, c, d");
}

#[test]
fn files_are_named_as_by_fio() {
    let names = |text: &str, clone| plan(text).unwrap().jobs[0].files(clone);
    assert_eq!(names("[a/b]\nnumjobs=2\nnrfiles=2\n", 1), ["a_b.1.0", "a_b.1.1"]);
    assert_eq!(names("[a]\ndirectory=/x/:/y\nnumjobs=3\n", 1), ["/y/a.1.0"]);
    assert_eq!(names("[a]\nfilename_format=t.$jobnum\n", 4), ["t.4"]);
    assert_eq!(names("[a]\nfilename=p:q\n", 0), ["p", "q"]);
    let many = plan("[a]\nnrfiles=1048576\nnumjobs=2\n").unwrap();
    assert_eq!((many.jobs[0].file_count(), many.jobs[0].files(1).len()), (1 << 20, 16));
    assert_eq!(names("[/dev/sdx]\n", 0), ["/dev/sdx"]);
    // Names of a job come after those of [global].
    let (value, warnings) = first("filename", "[global]\nfilename=g\n[a]\nfilename=h\n");
    assert_eq!(value, Some(Value::Files(vec!["g".into(), "h".into()])));
    assert!(warnings.contains("added to g"), "{warnings}");
}

#[test]
fn opposites_go_together() {
    let jobs = parse("[a]\nrwmixwrite=30\nbuffered=0\n[b]\nrwmixread=1\ndirect=0\n").unwrap().jobs;
    let of = |at: usize, name: &str| json!(jobs[at].value(name).unwrap());
    assert_eq!((of(0, "rwmixread"), of(0, "direct")), (70.into(), true.into()));
    assert_eq!((of(1, "rwmixwrite"), of(1, "buffered")), (99.into(), true.into()));
}

#[test]
fn the_rules_of_the_ios_follow_from_the_options() {
    let json = |text: &str| plan(text).unwrap().to_json()["jobs"][0]["ios"].clone();
    let ios = json("[a]\nrw=randrw:8\nrwmixread=70\nbsrange=4k-16k,8k-8k\nsize=1g\nio_size=2g\noffset=10%\n");
    assert_eq!(ios["shares_pct"]["write"], 30);
    assert_eq!(ios["sizes"]["read"]["step_bytes"], 4096);
    assert_eq!(ios["sizes"]["trim"]["bytes"], 8192);
    assert_eq!((&ios["order"]["run_ios"], &ios["order"]["each_once"]), (&8.into(), &true.into()));
    assert_eq!(
        (&ios["region"], &ios["transfer"], &ios["offset"]),
        (&(1 << 30).into(), &(2u64 << 30).into(), &"10%".into())
    );
    let zipf = json("[a]\nrw=randread\nrandom_distribution=zipf:1.2\nba=64k\n");
    assert_eq!((&zipf["order"]["each_once"], &zipf["align_bytes"]["read"]), (&false.into(), &65536.into()));
    assert_eq!(json("[a]\nrw=read:-8k\n")["order"]["gap_bytes"], -8192);
    let clones = plan("[a]\nnumjobs=3\noffset=1m\noffset_increment=4k\n").unwrap().to_json();
    assert_eq!(clones["jobs"][0]["clones"][2]["offset_bytes"], (1 << 20) + 8192);
}

#[test]
fn the_table_for_people_has_a_row_for_each_section() {
    let text = "[a]\nrw=randrw\nbs=4k,8k\nnumjobs=2\nsize=1m\n[b]\nstonewall\nstartdelay=5\nruntime=10\ntime_based\n";
    let rows = plan(text).unwrap().rows();
    assert_eq!(rows[0], ["a ×2", "0", "at once", "randrw 50/50", "4K, 8K", "1", "1M", "1M", "threads a.0.0"]);
    assert_eq!(rows[1][2], "after stage 0, at 5 s");
    assert!(rows.iter().all(|row| row.len() == Plan::columns().len()));
}
