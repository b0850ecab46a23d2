//! fio's engines, and what they are here.

use crate::complaint::quote;

/// What an engine is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// This driver of files and block devices.
    File(&'static str),
    /// The device `null`.
    Null,
    /// None: use this instead.
    None(&'static str),
}

/// An engine of fio.
#[derive(Debug, PartialEq, Eq)]
pub struct Engine {
    /// fio's name.
    pub name: &'static str,
    /// What it is here.
    pub driver: Driver,
}

const NOT_BLOCK: &str = "it does no block I/O; leave the job out";
const REMOTE: &str = "serve or mount that storage as a block device and name it with filename=";
const PATH: &str = "name the file or block device with filename= and use libaio, io_uring or psync";

/// Every engine of fio 3.42.
pub static ALL: &[Engine] = &[
    Engine { name: "psync", driver: Driver::File("threads") },
    Engine { name: "sync", driver: Driver::File("threads") },
    Engine { name: "vsync", driver: Driver::File("threads") },
    Engine { name: "pvsync", driver: Driver::File("threads") },
    Engine { name: "pvsync2", driver: Driver::File("threads") },
    Engine { name: "posixaio", driver: Driver::File("threads") },
    Engine { name: "libaio", driver: Driver::File("aio") },
    Engine { name: "io_uring", driver: Driver::File("uring") },
    Engine { name: "null", driver: Driver::Null },
    Engine {
        name: "io_uring_cmd",
        driver: Driver::None("platter bench io --on 'nvme(DEVICE)' sends NVMe commands"),
    },
    Engine { name: "sg", driver: Driver::None("platter bench io --on 'sg(DEVICE)' sends SCSI commands") },
    Engine {
        name: "nbd",
        driver: Driver::None("platter bench io --on 'nbd://HOST/EXPORT' is a client of the server"),
    },
    Engine {
        name: "libiscsi",
        driver: Driver::None("platter bench io --on 'iscsi://HOST/TARGET/LUN' is an initiator"),
    },
    Engine {
        name: "mmap",
        driver: Driver::None("platter bench fileio --on 'cache(size=SIZE, FILE)' measures a page cache"),
    },
    Engine { name: "libblkio", driver: Driver::None(PATH) },
    Engine { name: "libzbc", driver: Driver::None(PATH) },
    Engine { name: "xnvme", driver: Driver::None(PATH) },
    Engine { name: "mtd", driver: Driver::None(PATH) },
    Engine { name: "splice", driver: Driver::None(PATH) },
    Engine { name: "dev-dax", driver: Driver::None(PATH) },
    Engine { name: "pmemblk", driver: Driver::None(PATH) },
    Engine { name: "libpmem", driver: Driver::None(PATH) },
    Engine { name: "libcufile", driver: Driver::None(PATH) },
    Engine { name: "solarisaio", driver: Driver::None(PATH) },
    Engine { name: "windowsaio", driver: Driver::None(PATH) },
    Engine { name: "external", driver: Driver::None(PATH) },
    Engine { name: "cpp_null", driver: Driver::None("use ioengine=null") },
    Engine { name: "rbd", driver: Driver::None(REMOTE) },
    Engine { name: "rados", driver: Driver::None(REMOTE) },
    Engine { name: "gfapi", driver: Driver::None(REMOTE) },
    Engine { name: "gfapi_async", driver: Driver::None(REMOTE) },
    Engine { name: "libhdfs", driver: Driver::None(REMOTE) },
    Engine { name: "http", driver: Driver::None(REMOTE) },
    Engine { name: "nfs", driver: Driver::None(REMOTE) },
    Engine { name: "dfs", driver: Driver::None(REMOTE) },
    Engine { name: "ime_psync", driver: Driver::None(REMOTE) },
    Engine { name: "ime_psyncv", driver: Driver::None(REMOTE) },
    Engine { name: "ime_aio", driver: Driver::None(REMOTE) },
    Engine { name: "net", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "netsplice", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "rdma", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "librpma_apm_client", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "librpma_apm_server", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "librpma_gpspm_client", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "librpma_gpspm_server", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "cpuio", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "exec", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "ftruncate", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "falloc", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "e4defrag", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "filecreate", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "filestat", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "filedelete", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "dircreate", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "dirstat", driver: Driver::None(NOT_BLOCK) },
    Engine { name: "dirdelete", driver: Driver::None(NOT_BLOCK) },
];

/// The engine of a name.
///
/// # Errors
/// There is none, or none here.
pub(crate) fn find(name: &str) -> Result<&'static Engine, String> {
    let bare = name.split(':').next().unwrap_or(name);
    let Some(engine) = ALL.iter().find(|engine| engine.name == bare) else {
        return Err(format!("\"{}\" is not an engine of fio", quote(name)));
    };
    match engine.driver {
        Driver::None(_) => Err(format!("the engine {} is not here", engine.name)),
        _ => Ok(engine),
    }
}

/// What to do instead of using an engine that is not here.
pub(crate) fn instead(name: &str) -> &'static str {
    let bare = name.split([':', ' ', '\t', '#', ';']).next().unwrap_or(name);
    match ALL.iter().find(|engine| engine.name == bare).map(|engine| engine.driver) {
        Some(Driver::None(instead)) => instead,
        _ => "use libaio, io_uring, psync or null",
    }
}
