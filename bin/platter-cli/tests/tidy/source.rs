//! Rules for source files.

use crate::lexer::{functions, line_of, words};
use crate::tree::File;

const MAX_LINES: usize = 900;
const MAX_FUNCTION: usize = 70;
/// How far above an `unsafe` its argument may stand.
const REACH: usize = 12;

/// The files that may contain `unsafe`, except tests, each with its reason.
const UNSAFE: &[(&str, &str)] = &[
    ("bin/platter-cli/src/cli/signals.rs", "the handler of signals"),
    ("bin/platter-aio/src/block.rs", "control blocks of the program"),
    ("bin/platter-aio/src/disk.rs", "control blocks in the place of requests"),
    ("bin/platter-aio/src/event.rs", "signals and threads that notify the program"),
    ("bin/platter-aio/src/posix.rs", "functions that C programs call"),
    ("bin/platter-aio/src/process.rs", "masks of signals, handlers of forks and exits"),
    (
        "bin/platter-aio/src/request.rs",
        "segments over memory of the program, system calls on its descriptors",
    ),
    ("bin/platter-aio/src/sync.rs", "the futex system call"),
    ("lib/platter-block/src/disk/channel.rs", "a promise about the memory of requests"),
    ("lib/platter-wait/src/epoll.rs", "numbers of descriptors"),
    ("lib/platter-wait/src/sleeper.rs", "numbers of descriptors"),
    ("lib/platter-disk/src/disk_backend/opening.rs", "a promise about the memory of requests"),
    ("lib/platter-disk/src/drivers/descriptors.rs", "a promise about the memory of calls"),
    ("lib/platter-disk/src/drivers/threads/descriptors.rs", "blocking system calls"),
    ("lib/platter-disk/src/drivers/uring/descriptors.rs", "entries of a ring that name memory"),
    ("lib/platter-remote/src/buffers.rs", "memory of requests that the kernel or libiscsi reads and writes"),
    ("lib/platter-remote/src/iscsi/client/library.rs", "functions and structures of libiscsi"),
    ("lib/platter-remote/src/iscsi/client/session.rs", "calls of libiscsi, and its callbacks"),
    ("lib/platter-remote/src/iscsi/client/session/aborts.rs", "calls of libiscsi, and its callbacks"),
    ("lib/platter-remote/src/nbd/client/memory.rs", "memory of requests in system calls on sockets"),
    ("lib/platter-remote/src/nbd/client/slots.rs", "memory of requests in flight"),
    (
        "lib/platter-remote/src/nbd/client/channel/transmit.rs",
        "headers of requests in system calls on sockets",
    ),
    ("lib/platter-remote/src/nvme/disk/protocol.rs", "memory of requests in flight"),
    ("lib/platter-remote/src/nvme/disk/ring.rs", "entries of a ring that name memory"),
    ("lib/platter-remote/src/passed.rs", "a promise about the memory of requests"),
    ("lib/platter-remote/src/passed/threads.rs", "memory of requests in ioctls"),
    ("lib/platter-remote/src/sg/asynchronous.rs", "memory of requests in flight"),
    ("lib/platter-remote/src/sg/header/tests.rs", "bytes of structures of the kernel"),
    ("lib/platter-remote/src/sg/protocol.rs", "memory of requests in flight"),
    ("lib/platter-remote/src/slots.rs", "memory of requests in flight"),
    ("lib/platter-remote/src/sg/work.rs", "system calls that name memory of requests"),
    ("lib/platter-remote/src/nvme/ioctl.rs", "ioctls without a safe wrapper, which name memory"),
    ("bin/platter-serve/src/fuse/descriptor.rs", "an ioctl without a safe wrapper"),
    (
        "bin/platter-serve/src/ublk/control_ring.rs",
        "commands that name memory, an ioctl without a safe wrapper",
    ),
    ("bin/platter-serve/src/ublk/queue_ring.rs", "descriptors and buffers that the kernel writes"),
    ("bin/platter-serve/src/vhost/memory.rs", "the memory of a guest, in another process"),
    ("bin/platter-serve/src/vhost/ring.rs", "entries of a ring, as bytes"),
    ("scripts/compare-futures.d/src/others.rs", "entries of a ring that name memory"),
    ("lab/platter-bench/src/fileio/plain/aio.rs", "system calls without a safe wrapper"),
    ("lab/platter-bench/src/io/usage.rs", "getrusage"),
    ("lib/platter-scsi/src/disk/buffer.rs", "memory of bios, copies between it and that of requests"),
    ("lib/platter-scsi/src/disk/channel.rs", "memory of requests in flight"),
    ("lab/platter-crash/src/ptrace.rs", "system calls that trace other processes, without a safe wrapper"),
    ("lab/platter-kit/src/soak/memory.rs", "buffers of its own, to see when they are freed"),
    ("lab/platter-kit/src/soak/real/script.rs", "data of writes that land late"),
    ("lib/platter-block/src/buf.rs", "segments over memory that a bio owns"),
    ("lib/platter-block/src/build.rs", "segments that the caller answers for"),
    ("lib/platter-block/src/deferred.rs", "functions of another crate, kept in a static"),
    ("lib/platter-block/src/owner.rs", "any owner of memory in a few words, without an allocation"),
    ("lib/platter-block/src/resident.rs", "the promise of a device that shows its memory"),
    ("lib/platter-block/src/segment.rs", "addresses that cross threads"),
    ("lib/platter-disk/src/aligned.rs", "aligned allocation, copies between it and segments"),
    ("lib/platter-disk/src/clock.rs", "the time-stamp counter"),
    ("lib/platter-disk/src/drivers/aio.rs", "control blocks for the kernel"),
    ("lib/platter-disk/src/drivers/aio/syscalls.rs", "system calls without a safe wrapper"),
    ("lib/platter-disk/src/drivers/iovec.rs", "segments as iovecs"),
    ("lib/platter-disk/src/drivers/memory/store.rs", "a disk in memory, shared between threads"),
    ("lib/platter-disk/src/drivers/threads/calls.rs", "system calls over segments"),
    ("lib/platter-disk/src/drivers/uring.rs", "submission queue entries over segments"),
    ("lib/platter-disk/src/drivers/uring/place.rs", "system calls without a safe wrapper"),
    ("lib/platter-disk/src/drivers/uring/ring.rs", "registration of files and buffers"),
    ("lib/platter-disk/src/drivers/uring/seen.rs", "the tail of a ring, mapped"),
    ("lib/platter-disk/src/ofd.rs", "locks of bytes, without a safe wrapper"),
    ("lib/platter-disk/src/fiemap.rs", "an ioctl without a safe wrapper"),
    ("lib/platter-disk/src/future/reply.rs", "a bio that passes between threads without a lock"),
    ("lib/platter-disk/src/handle/page.rs", "the bytes of a pinned page"),
    ("lab/platter-bench/src/ladder/units.rs", "bios over borrowed memory, copies from low memory"),
    ("lib/platter-disk/src/bounce.rs", "bios over aligned memory"),
    ("lib/platter-disk/src/pool.rs", "memory that many buffers share"),
    ("lib/platter-disk/src/pool/backing.rs", "mapped memory"),
    ("lib/platter-disk/src/sync_io.rs", "segments over borrowed memory"),
    ("lib/platter-disk/src/sync_io/commands.rs", "segments over borrowed memory"),
    ("lab/platter-engines/src/dsw/vfs.rs", "methods of a file system that SQLite calls"),
    ("lab/platter-engines/src/fixed_random.rs", "the C library's random numbers, replaced"),
    ("lab/platter-engines/src/registered.rs", "a file system registered with SQLite"),
    ("lab/platter-engines/src/sqlite/file.rs", "methods of a file that SQLite calls"),
    ("lab/platter-engines/src/sqlite.rs", "SQLite's C interface"),
    ("lab/platter-engines/src/sqlite/vfs.rs", "methods of a file system that SQLite calls"),
    ("lab/platter-fuzz/src/edges.rs", "counters that the compiler puts into the program"),
    ("lab/platter-fuzz/src/image.rs", "contents to and from the memory of bios"),
    ("lab/platter-fuzz/src/memory.rs", "an allocator that counts"),
    ("lab/platter-sim/src/channel.rs", "contents to and from the memory of requests"),
    (
        "lib/platter-cache/src/memory.rs",
        "memory from the system, tables in it, and copies of the data of commands",
    ),
    ("lib/platter-cache/src/frames.rs", "the memory of pages, read without a lock"),
    (
        "lib/platter-cache/src/frames/copies.rs",
        "copying between bios and the memory of pages, without a lock",
    ),
    ("lib/platter-cache/src/resident.rs", "shows pages to handles"),
    ("lib/platter-stack/src/kit/core.rs", "copies between buffers and bios that a layer has in its hands"),
    ("lib/platter-stack/src/kit/memory.rs", "buffers of layers, and the memory of bios"),
    ("lib/platter-stack/src/verify.rs", "reads the memory of bios that it has in its hands"),
    ("lib/platter-stack/src/verify/memory.rs", "checksums of the memory of bios"),
];

/// Not anywhere in the project. In two parts, so that this file keeps the rule itself.
const NOWHERE: &[(&str, &str, &str)] = &[
    ("todo", "!(", "finish it or leave it out"),
    ("#[ig", "nore", "make the test run, or detect what it needs and say so"),
    ("allow(dead_", "code)", "delete unused code"),
];

/// Not in the layer itself, tests aside.
const NOT_IN_CORE: &[(&str, &str)] = &[
    ("Instant", "time is an argument"),
    ("SystemTime", "time is an argument"),
    ("println", "the layer prints nothing"),
    ("eprintln", "the layer prints nothing"),
    ("std", "the layer is no_std"),
];

/// All problems of the source files.
pub(crate) fn problems(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        long_file(file, &mut problems);
        if file.path.contains("/src/") && file.path.ends_with("/mod.rs") {
            problems.push(format!("{}: name a module's file after the module, beside its folder", file.path));
        }
        if file.is_rust() {
            let code = file.code();
            long_functions(file, code, &mut problems);
            banned(file, code, &mut problems);
            unsafe_code(file, code, &mut problems);
        }
    }
    for (path, _) in UNSAFE {
        if !files.iter().any(|f| f.path == *path && words(f.code(), "unsafe").next().is_some()) {
            problems.push(format!("{path}: in the list of unsafe modules, but has none"));
        }
    }
    problems
}

fn long_file(file: &File, problems: &mut Vec<String>) {
    let lines = file.text.lines().count();
    let first = file.text.lines().next().unwrap_or_default();
    // The page of tables is written by a test of this program.
    let generated = file.path == "docs/tables.md" || file.path.starts_with("LICENSE");
    let generated = generated || file.path.ends_with("Cargo.lock");
    // Inputs of the fuzzer are data.
    let generated = generated || file.path.starts_with("lab/platter-fuzz/corpus/");
    if lines > MAX_LINES && !generated && !first.contains("Long:") {
        problems
            .push(format!("{}: {lines} lines; split it, or say \"Long: why\" on its first line", file.path));
    }
}

fn long_functions(file: &File, code: &str, problems: &mut Vec<String>) {
    for f in functions(code).iter().filter(|f| f.lines > MAX_FUNCTION) {
        problems.push(format!("{}:{}: function {} has {} lines", file.path, f.line, f.name, f.lines));
    }
}

fn banned(file: &File, code: &str, problems: &mut Vec<String>) {
    let mut find = |text: &str, what: &str, why: &str| {
        for (at, _) in text.match_indices(what) {
            problems.push(format!("{}:{}: {what}: {why}", file.path, line_of(text, at)));
        }
    };
    for (a, b, why) in NOWHERE {
        find(code, &format!("{a}{b}"), why);
    }
    if file.is_test() {
        find(code, "thread::sleep", "wait for what is expected instead");
        return;
    }
    let code = file.live();
    find(code, ".unwrap()", "give the error on, or say with expect why it cannot happen");
    find(code, ".expect(\"\")", "say why it cannot happen");
    if file.path.starts_with("lib/platter-block/src/") {
        for (word, why) in NOT_IN_CORE {
            let uses = words(code, word).filter(|&at| !code[..at].ends_with("extern crate "));
            problems.extend(uses.map(|at| format!("{}:{}: {word}: {why}", file.path, line_of(code, at))));
        }
    }
}

fn unsafe_code(file: &File, code: &str, problems: &mut Vec<String>) {
    let listed = file.is_test() || UNSAFE.iter().any(|(path, _)| *path == file.path);
    let lines: Vec<&str> = file.text.lines().collect();
    for at in words(code, "unsafe") {
        let rest = code[at + "unsafe".len()..].trim_start();
        if rest.starts_with(')') || rest.starts_with("fn(") || rest.starts_with("extern \"") {
            continue; // An attribute, the type of a function, or a block of declarations.
        }
        let line = line_of(code, at);
        if !listed {
            problems.push(format!("{}:{line}: unsafe; only the modules listed in tidy may", file.path));
            return;
        }
        let above = &lines[line.saturating_sub(REACH + 1)..line];
        if !above.iter().any(|l| l.contains("SAFETY:") || l.contains("# Safety")) {
            problems.push(format!("{}:{line}: unsafe without a safety argument", file.path));
        }
    }
}

#[cfg(test)]
fn problems_of(path: &str, text: &str) -> Vec<String> {
    let file = File::new(path, text);
    problems(&[file]).into_iter().filter(|p| p.starts_with(path)).collect()
}

#[test]
fn offences_are_found() {
    let block = "lib/platter-block/src/new.rs";
    let disk = "lib/platter-disk/src/new.rs";
    let long = format!("fn f() {{{}}}\n", "\n".repeat(MAX_FUNCTION));
    for (path, text) in [
        (block, "fn f() { let now = Instant::now(); }"),
        (block, "use std::vec::Vec;"),
        (disk, "fn f() { g().unwrap() }"),
        (disk, "fn f() { unsafe { g() } }"),
        ("lib/platter-disk/src/aligned.rs", "fn f() { unsafe { g() } }"),
        (disk, &long),
        ("lib/platter-disk/src/new/mod.rs", "fn f() {}"),
        ("docs/new.md", &"\n".repeat(MAX_LINES + 1)),
    ] {
        assert_eq!(problems_of(path, text).len(), 1, "{path}: {text}");
    }
    let fine = "/// Calls unwrap().\n#[cfg(test)]\nmod tests {\n fn f() { std::f().unwrap(); }\n}\n";
    assert_eq!(problems_of(block, fine), Vec::<String>::new());
}
