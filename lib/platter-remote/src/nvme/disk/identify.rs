//! What a namespace and its controller say of themselves.

use super::NvmeError;
use crate::nvme::{Data, Node};
use platter_block::command::CommandSet;
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use platter_nvme::command::{self, Entry};
use platter_nvme::identify::{self, CONTROLLER, NAMESPACE, NVM_CONTROLLER, cns};
use platter_nvme::status::Status;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The unit of sizes that a controller tells as a power of two: its smallest page (CAP.MPSMIN), which is 4 KiB everywhere.
const PAGE: u64 = 4096;
/// Most bytes of a request, whatever the controller takes: the kernel allocates as much at once for a copy.
const MAX_TRANSFER: u64 = 1 << 20;
/// Largest discard or write-zeroes.
const MAX_DISCARD: u64 = 1 << 30;
/// Most blocks of a command.
const MAX_BLOCKS: u64 = 1 << 16;
/// What a queue of the kernel takes if that is not known: segments, and the mask of addresses.
const DEFAULT_SEGMENTS: u64 = 126;
const DEFAULT_ALIGNMENT: u64 = 511;

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) model: String,
    pub(super) firmware: String,
    pub(super) serial: String,
    pub(super) nsid: u32,
    pub(super) blocks: u64,
    pub(super) block: u64,
    pub(super) write_cache: bool,
    pub(super) deallocates: bool,
    pub(super) writes_zeroes: bool,
    pub(super) is_protected: bool,
    /// Most bytes of a command.
    max_transfer: u64,
    /// Most bytes of a command that writes zeroes.
    pub(super) max_zeroes: u64,
    max_segments: u16,
    alignment: u32,
    optimal: u64,
    granularity: u64,
}

#[cfg(test)]
impl Found {
    /// A namespace of this many blocks, of which nothing else is known.
    pub(super) fn with_blocks(blocks: u64, block: u64) -> Found {
        Found { blocks, block, ..Found::default() }
    }
}

/// Asks a namespace and its controller.
pub(super) fn ask(node: &Node, path: &Path) -> Result<Found, NvmeError> {
    let cannot = |source| NvmeError::Open { path: path.to_owned(), source };
    let nsid = node.namespace().map_err(cannot)?;
    let data = |entry: Entry| {
        let mut data = vec![0; identify::LEN];
        let outcome = node.send(CommandSet::NvmeAdmin, entry.bytes(), Data::In(&mut data), None)?;
        Ok((Status(outcome.status), data))
    };
    let must = |entry: Entry| {
        let (status, data) = data(entry).map_err(cannot)?;
        let failed = || NvmeError::Unfit(format!("Identify: {status}"));
        if status.is_success() { Ok(data) } else { Err(failed()) }
    };
    let identify = |cns: u8| Entry::new(&command::IDENTIFY).with("cns", cns.into());
    let controller = must(identify(cns::CONTROLLER))?;
    let namespace = must(identify(cns::NAMESPACE).with("nsid", nsid.into()))?;
    // Controllers before version 1.4 or 2.0 do not know it.
    let limits = data(identify(cns::SET_CONTROLLER)).ok().filter(|(status, _)| status.is_success());
    let limits: Option<Vec<u8>> = limits.map(|(_, data)| data);
    let mut found = learn(nsid, &controller, &namespace, limits.as_deref()).map_err(NvmeError::Unfit)?;
    found.limit(&Queue::of(path));
    Ok(found)
}

fn learn(nsid: u32, controller: &[u8], namespace: &[u8], limits: Option<&[u8]>) -> Result<Found, String> {
    let format = identify::format(namespace).ok_or("the namespace does not tell its format")?;
    if format.metadata > 0 {
        let metadata = format.metadata;
        return Err(format!(
            "blocks with {metadata} bytes of metadata, which are not used here; format the namespace without"
        ));
    }
    if !format.data.is_power_of_two() || !(512..=65536).contains(&format.data) {
        return Err(format!("blocks of {} bytes; powers of two from 512 to 65536 can be used", format.data));
    }
    let (of, at) = (CONTROLLER.decode(controller), NAMESPACE.decode(namespace));
    let (of, at) = (|name| of.get(name).unwrap_or(0), |name| at.get(name).unwrap_or(0));
    let (block, blocks) = (format.data, at("nsze"));
    if blocks.checked_mul(block).is_none_or(|size| size > i64::MAX as u64) {
        return Err(format!("the namespace claims to have {blocks} blocks of {block} bytes"));
    }
    let text = |from: usize, len: usize| {
        let bytes = controller.get(from..from + len).unwrap_or_default();
        String::from_utf8_lossy(bytes).trim_matches([' ', '\0']).to_owned()
    };
    let power = |exponent: u64| if exponent == 0 { None } else { PAGE.checked_shl(exponent as u32) };
    let most = power(of("mdts")).unwrap_or(MAX_TRANSFER).min(MAX_TRANSFER).min(MAX_BLOCKS * block);
    let told = limits.and_then(|limits| power(NVM_CONTROLLER.decode(limits).get("wzsl").unwrap_or(0)));
    // Without a limit of its own the command has that of data, as the kernel takes it.
    let zeroes = told.unwrap_or(most).min(MAX_BLOCKS * block);
    // Bits 1 and 4 of NSFEAT say whether the numbers mean anything.
    let optimal = if at("nsfeat") & 1 << 4 != 0 { (at("nows") + 1) * block } else { 0 };
    let granularity = if at("nsfeat") & 1 << 4 != 0 { (at("npdg") + 1) * block } else { block };
    Ok(Found {
        serial: text(4, 20),
        model: text(24, 40),
        firmware: text(64, 8),
        nsid,
        blocks,
        block,
        write_cache: of("vwc") & 1 != 0,
        deallocates: of("oncs") & 1 << 2 != 0,
        writes_zeroes: of("oncs") & 1 << 3 != 0,
        is_protected: at("nsattr") & 1 != 0,
        max_transfer: most,
        max_zeroes: zeroes,
        max_segments: 1,
        alignment: 4,
        optimal,
        granularity,
    })
}

/// What the kernel's queue of a namespace takes.
#[derive(Clone, Copy, Debug)]
struct Queue {
    bytes: u64,
    segments: u64,
    /// The bits that are clear in addresses that it maps.
    alignment: u64,
}

impl Queue {
    fn of(path: &Path) -> Queue {
        let folder = super::NvmeDisk::block_behind(path).and_then(|block| {
            let device = fs::metadata(block).ok()?.rdev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/queue")))
        });
        let number =
            |name: &str| fs::read_to_string(folder.as_ref()?.join(name)).ok()?.trim().parse::<u64>().ok();
        Queue {
            bytes: number("max_hw_sectors_kb").map_or(MAX_TRANSFER, |kib| kib << 10),
            segments: number("max_segments").unwrap_or(DEFAULT_SEGMENTS),
            alignment: number("dma_alignment").unwrap_or(DEFAULT_ALIGNMENT),
        }
    }
}

impl Found {
    /// Pages of misaligned memory count as segments: a piece may touch two more than its length needs.
    fn limit(&mut self, queue: &Queue) {
        let pages = (queue.segments / 4 * 3).max(1);
        let most = self.max_transfer.min(queue.bytes).min(pages * PAGE) / self.block * self.block;
        self.max_transfer = most.max(self.block);
        self.max_zeroes = (self.max_zeroes / self.block * self.block).max(self.block);
        self.max_segments = (queue.segments / 8).clamp(1, 512) as u16;
        self.alignment = (queue.alignment + 1).next_power_of_two().min(PAGE) as u32;
    }

    pub(super) fn geometry(&self) -> Geometry {
        let max = self.max_transfer as u32;
        let small = |bytes: u64| u32::try_from(bytes).unwrap_or(0);
        let limits = Limits::unlimited(self.block as u32)
            .with_memory_align(self.alignment)
            .with_max_transfer(max)
            .with_max_segment_size(max)
            .with_max_segments(self.max_segments)
            .with_optimal_io(small(self.optimal))
            .with_discard_granularity(if self.deallocates { small(self.granularity) } else { 0 })
            .with_max_discard(MAX_DISCARD)
            .with_write_zeroes(self.writes_zeroes);
        let features = Features::NONE.with_write_cache(self.write_cache).with_fua(self.write_cache);
        Geometry::new(self.blocks * self.block, limits).with_features(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a disk has said, as the tests of `platter-nvme` have it: controller, namespace, limits of the command set.
    fn recorded() -> [Vec<u8>; 3] {
        ["id-ctrl", "id-ns", "cs-ctrl"].map(|name| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../platter-nvme/tests/data");
            std::fs::read(format!("{folder}/qemu-{name}.bin")).expect("the workspace has the recording")
        })
    }

    #[test]
    fn a_recorded_disk_is_used_within_its_limits() {
        let [controller, namespace, limits] = &recorded();
        let mut found = learn(1, controller, namespace, Some(limits)).unwrap();
        found.limit(&Queue { bytes: 512 << 10, segments: 127, alignment: 3 });
        assert_eq!(found.model, "QEMU NVMe Ctrl");
        let geometry = found.geometry();
        assert_eq!(geometry.size, found.blocks * 512);
        assert_eq!((geometry.limits.logical_block, geometry.limits.memory_align), (512, 4));
        assert_eq!((geometry.limits.max_transfer, geometry.limits.max_segments), (93 * 4096, 15));
        assert!(geometry.features.write_cache && geometry.features.fua);
        assert!(geometry.limits.write_zeroes && geometry.limits.discard_granularity > 0);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let [controller, namespace, _] = &recorded();
        let with = |edit: fn(&mut Vec<u8>)| {
            let mut namespace = namespace.to_vec();
            edit(&mut namespace);
            learn(1, controller, &namespace, None).unwrap_err()
        };
        // The format in use is the first: its metadata, the exponent of its block.
        assert!(with(|bytes| (bytes[26], bytes[128]) = (0, 8)).contains("8 bytes of metadata"));
        assert!(with(|bytes| (bytes[26], bytes[130]) = (0, 8)).contains("blocks of 256 bytes"));
        assert!(with(|bytes| bytes[..8].fill(0xff)).contains("claims"));
        assert!(with(|bytes| bytes.truncate(20)).contains("format"));
    }

    #[test]
    fn a_controller_without_limits_gets_those_of_the_kernel() {
        let [controller, namespace, _] = &recorded();
        let mut controller = controller.to_vec();
        controller[77] = 0;
        let mut found = learn(1, &controller, namespace, None).unwrap();
        found.limit(&Queue { bytes: 8 << 20, segments: 4096, alignment: 511 });
        assert_eq!(found.geometry().limits.max_transfer, 1 << 20);
        assert_eq!((found.geometry().limits.max_segments, found.max_zeroes), (512, 1 << 20));
    }
}
