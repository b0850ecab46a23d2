//! Data that Identify returns: Base Specification 2.0 ("Identify command") and NVM Command Set Specification 1.0.
//!
//! Fields that the specifications reserve, and those of vendors, have no name here; a decoded structure keeps their bytes.

use crate::layout::little::{bits, flag, number, wide};
use crate::layout::{bytes, text};
use crate::structure::{Items, Structure, little_at};

/// Length of the data of Identify in bytes.
pub const LEN: usize = 4096;

/// CNS values: what Identify returns.
pub mod cns {
    /// Identify Namespace of the NVM command set.
    pub const NAMESPACE: u8 = 0x00;
    /// Identify Controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Active Namespace ID list.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// Namespace Identification Descriptor list.
    pub const DESCRIPTORS: u8 = 0x03;
    /// Identify Namespace of an I/O command set.
    pub const SET_NAMESPACE: u8 = 0x05;
    /// Identify Controller of an I/O command set.
    pub const SET_CONTROLLER: u8 = 0x06;
    /// Active Namespace ID list of an I/O command set.
    pub const SET_ACTIVE_NAMESPACES: u8 = 0x07;
    /// I/O Command Set Independent Identify Namespace.
    pub const INDEPENDENT_NAMESPACE: u8 = 0x08;
}

/// The layout of what Identify returns for a CNS value; `None` for one without a layout here.
pub fn by_cns(cns: u8) -> Option<&'static Structure> {
    Some(match cns {
        cns::NAMESPACE => &NAMESPACE,
        cns::CONTROLLER => &CONTROLLER,
        cns::ACTIVE_NAMESPACES | cns::SET_ACTIVE_NAMESPACES => &NAMESPACE_LIST,
        cns::DESCRIPTORS => &DESCRIPTORS,
        cns::SET_NAMESPACE => &NVM_NAMESPACE,
        cns::SET_CONTROLLER => &NVM_CONTROLLER,
        cns::INDEPENDENT_NAMESPACE => &INDEPENDENT_NAMESPACE,
        _ => return None,
    })
}

/// Identify Controller data structure (CNS 01h), with a power state descriptor for each power state.
pub static CONTROLLER: Structure = Structure {
    name: "Identify Controller data structure",
    standard: "NVMe Base 2.0",
    fields: &[
        number("vid", 0, 2),
        number("ssvid", 2, 2),
        text("sn", 4, 20),
        text("mn", 24, 40),
        text("fr", 64, 8),
        number("rab", 72, 1),
        number("ieee", 73, 3),
        number("cmic", 76, 1),
        number("mdts", 77, 1),
        number("cntlid", 78, 2),
        number("ver", 80, 4),
        number("rtd3r", 84, 4),
        number("rtd3e", 88, 4),
        number("oaes", 92, 4),
        number("ctratt", 96, 4),
        number("rrls", 100, 2),
        number("cntrltype", 111, 1),
        bytes("fguid", 112, 16),
        number("crdt1", 128, 2),
        number("crdt2", 130, 2),
        number("crdt3", 132, 2),
        number("nvmsr", 253, 1),
        number("vwci", 254, 1),
        number("mec", 255, 1),
        number("oacs", 256, 2),
        number("acl", 258, 1),
        number("aerl", 259, 1),
        number("frmw", 260, 1),
        number("lpa", 261, 1),
        number("elpe", 262, 1),
        number("npss", 263, 1),
        number("avscc", 264, 1),
        number("apsta", 265, 1),
        number("wctemp", 266, 2),
        number("cctemp", 268, 2),
        number("mtfa", 270, 2),
        number("hmpre", 272, 4),
        number("hmmin", 276, 4),
        wide("tnvmcap", 280),
        wide("unvmcap", 296),
        number("rpmbs", 312, 4),
        number("edstt", 316, 2),
        number("dsto", 318, 1),
        number("fwug", 319, 1),
        number("kas", 320, 2),
        number("hctma", 322, 2),
        number("mntmt", 324, 2),
        number("mxtmt", 326, 2),
        number("sanicap", 328, 4),
        number("hmminds", 332, 4),
        number("hmmaxd", 336, 2),
        number("nsetidmax", 338, 2),
        number("endgidmax", 340, 2),
        number("anatt", 342, 1),
        number("anacap", 343, 1),
        number("anagrpmax", 344, 4),
        number("nanagrpid", 348, 4),
        number("pels", 352, 4),
        number("domainid", 356, 2),
        wide("megcap", 368),
        number("sqes", 512, 1),
        number("cqes", 513, 1),
        number("maxcmd", 514, 2),
        number("nn", 516, 4),
        number("oncs", 520, 2),
        number("fuses", 522, 2),
        number("fna", 524, 1),
        number("vwc", 525, 1),
        number("awun", 526, 2),
        number("awupf", 528, 2),
        number("icsvscc", 530, 1),
        number("nwpc", 531, 1),
        number("acwu", 532, 2),
        number("ocfs", 534, 2),
        number("sgls", 536, 4),
        number("mnan", 540, 4),
        wide("maxdna", 544),
        number("maxcna", 560, 4),
        text("subnqn", 768, 256),
        number("ioccsz", 1792, 4),
        number("iorcsz", 1796, 4),
        number("icdoff", 1800, 2),
        number("fcatt", 1802, 1),
        number("msdbd", 1803, 1),
        number("ofcs", 1804, 2),
        number("dctype", 1806, 1),
    ],
    length: |_| LEN,
    items: Some(Items {
        start: |_| 2048,
        // NPSS counts from 0, up to 31.
        end: |bytes| 2048 + 32 * (little_at(bytes, 263, 1).min(31) + 1),
        each: |_| &POWER_STATE,
    }),
};

/// A power state descriptor.
static POWER_STATE: Structure = Structure {
    name: "power state descriptor",
    standard: "NVMe Base 2.0",
    fields: &[
        number("mp", 0, 2),
        flag("mxps", 3, 0),
        flag("nops", 3, 1),
        number("enlat", 4, 4),
        number("exlat", 8, 4),
        bits("rrt", 12, 0, 5),
        bits("rrl", 13, 0, 5),
        bits("rwt", 14, 0, 5),
        bits("rwl", 15, 0, 5),
        number("idlp", 16, 2),
        bits("ips", 18, 6, 2),
        number("actp", 20, 2),
        bits("apw", 22, 0, 3),
        bits("aps", 22, 6, 2),
    ],
    length: |_| 32,
    items: None,
};

/// Identify Namespace data structure of the NVM command set (CNS 00h), with its LBA formats.
pub static NAMESPACE: Structure = Structure {
    name: "Identify Namespace data structure",
    standard: "NVM Command Set 1.0",
    fields: &[
        number("nsze", 0, 8),
        number("ncap", 8, 8),
        number("nuse", 16, 8),
        number("nsfeat", 24, 1),
        number("nlbaf", 25, 1),
        number("flbas", 26, 1),
        number("mc", 27, 1),
        number("dpc", 28, 1),
        number("dps", 29, 1),
        number("nmic", 30, 1),
        number("rescap", 31, 1),
        number("fpi", 32, 1),
        number("dlfeat", 33, 1),
        number("nawun", 34, 2),
        number("nawupf", 36, 2),
        number("nacwu", 38, 2),
        number("nabsn", 40, 2),
        number("nabo", 42, 2),
        number("nabspf", 44, 2),
        number("noiob", 46, 2),
        wide("nvmcap", 48),
        number("npwg", 64, 2),
        number("npwa", 66, 2),
        number("npdg", 68, 2),
        number("npda", 70, 2),
        number("nows", 72, 2),
        number("mssrl", 74, 2),
        number("mcl", 76, 4),
        number("msrc", 80, 1),
        number("nulbaf", 82, 1),
        number("anagrpid", 92, 4),
        number("nsattr", 99, 1),
        number("nvmsetid", 100, 2),
        number("endgid", 102, 2),
        bytes("nguid", 104, 16),
        bytes("eui64", 120, 8),
        number("lbstm", 384, 8),
    ],
    length: |_| LEN,
    items: Some(Items {
        start: |_| 128,
        // NLBAF and NULBAF: formats with attributes of their own (NULBAF) follow the others; NLBAF counts from 0.
        end: |bytes| 128 + 4 * (little_at(bytes, 25, 1) + little_at(bytes, 82, 1) + 1).min(64),
        each: |_| &LBA_FORMAT,
    }),
};

/// An LBA format.
static LBA_FORMAT: Structure = Structure {
    name: "LBA format",
    standard: "NVM Command Set 1.0",
    fields: &[number("ms", 0, 2), number("lbads", 2, 1), bits("rp", 3, 0, 2)],
    length: |_| 4,
    items: None,
};

/// The format of a namespace's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of data of a block.
    pub data: u64,
    /// Bytes of its metadata.
    pub metadata: u64,
    /// The metadata is at the end of each block, not in memory of its own.
    pub is_extended: bool,
}

/// The format of the blocks, given the data of Identify Namespace. `None`: the data is cut off, or names no such format.
pub fn format(namespace: &[u8]) -> Option<Format> {
    let decoded = NAMESPACE.decode(namespace);
    let flbas = decoded.get("flbas")?;
    // Bits 0 to 3 and 5 to 6 are the format, bit 4 says that the metadata is at the end of each block.
    let format = decoded.items().get((flbas & 0xf | (flbas >> 5 & 3) << 4) as usize).copied()?;
    let data = 1u64.checked_shl(format.get("lbads")? as u32)?;
    Some(Format { data, metadata: format.get("ms")?, is_extended: flbas & 1 << 4 != 0 })
}

/// Bytes of a block as it is transferred: with its metadata if that is at the end of each block.
pub fn block_len(namespace: &[u8]) -> Option<u64> {
    format(namespace).map(|format| format.data + if format.is_extended { format.metadata } else { 0 })
}

/// I/O Command Set Independent Identify Namespace data structure (CNS 08h).
pub static INDEPENDENT_NAMESPACE: Structure = Structure {
    name: "I/O Command Set Independent Identify Namespace data structure",
    standard: "NVMe Base 2.0",
    fields: &[
        number("nsfeat", 0, 1),
        number("nmic", 1, 1),
        number("rescap", 2, 1),
        number("fpi", 3, 1),
        number("anagrpid", 4, 4),
        number("nsattr", 8, 1),
        number("nvmsetid", 10, 2),
        number("endgid", 12, 2),
        number("nstat", 14, 1),
    ],
    length: |_| LEN,
    items: None,
};

/// Identify Namespace data structure of the NVM command set for its further features (CNS 05h, CSI 00h).
pub static NVM_NAMESPACE: Structure = Structure {
    name: "NVM Command Set Identify Namespace data structure",
    standard: "NVM Command Set 1.0",
    fields: &[number("lbstm", 0, 8), flag("16bpists", 8, 0), flag("16bpistm", 8, 1), flag("stcrs", 8, 2)],
    length: |_| LEN,
    items: Some(Items { start: |_| 12, end: |_| 12 + 4 * 64, each: |_| &EXTENDED_FORMAT }),
};

/// An extended LBA format.
static EXTENDED_FORMAT: Structure = Structure {
    name: "extended LBA format",
    standard: "NVM Command Set 1.0",
    fields: &[bits("sts", 0, 0, 7), bits("pif", 0, 7, 2)],
    length: |_| 4,
    items: None,
};

/// Identify Controller data structure of the NVM command set (CNS 06h, CSI 00h).
pub static NVM_CONTROLLER: Structure = Structure {
    name: "NVM Command Set Identify Controller data structure",
    standard: "NVM Command Set 1.0",
    fields: &[
        number("vsl", 0, 1),
        number("wzsl", 1, 1),
        number("wusl", 2, 1),
        number("dmrl", 3, 1),
        number("dmrsl", 4, 4),
        number("dmsl", 8, 8),
    ],
    length: |_| LEN,
    items: None,
};

/// Namespace list (CNS 02h): identifiers in rising order up to the first that is 0.
pub static NAMESPACE_LIST: Structure = Structure {
    name: "Namespace List",
    standard: "NVMe Base 2.0",
    fields: &[],
    length: |_| LEN,
    items: Some(Items {
        start: |_| 0,
        end: |bytes| 4 * bytes.chunks_exact(4).take_while(|id| id.iter().any(|byte| *byte != 0)).count(),
        each: |_| &NAMESPACE_ID,
    }),
};

/// An entry of a namespace list.
static NAMESPACE_ID: Structure = Structure {
    name: "namespace identifier",
    standard: "NVMe Base 2.0",
    fields: &[number("nsid", 0, 4)],
    length: |_| 4,
    items: None,
};

/// Namespace Identification Descriptor list (CNS 03h): descriptors up to one of type 0.
pub static DESCRIPTORS: Structure = Structure {
    name: "Namespace Identification Descriptor list",
    standard: "NVMe Base 2.0",
    fields: &[],
    length: |_| LEN,
    items: Some(Items { start: |_| 0, end: descriptors_end, each: |_| &DESCRIPTOR }),
};

/// Length of a descriptor's header in bytes.
const DESCRIPTOR_HEADER: usize = 4;

fn descriptors_end(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at < bytes.len() && bytes[at] != 0 {
        at += DESCRIPTOR_HEADER + little_at(bytes, at + 1, 1);
    }
    at
}

/// A namespace identification descriptor: NIDT 1 is an EUI-64, 2 an NGUID, 3 a UUID, 4 the command set.
static DESCRIPTOR: Structure = Structure {
    name: "Namespace Identification Descriptor",
    standard: "NVMe Base 2.0",
    fields: &[number("nidt", 0, 1), number("nidl", 1, 1), crate::layout::bytes_to_end("nid", 4)],
    length: |bytes| DESCRIPTOR_HEADER + little_at(bytes, 1, 1),
    items: None,
};
