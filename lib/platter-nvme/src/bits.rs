//! Bits of numbers that stand for something by themselves, in words: Base Specification 2.0 and NVM Command Set
//! Specification 1.0, the descriptions of the fields.

use crate::structure::{Decoded, Structure};
use crate::{identify, log};
use alloc::vec::Vec;

/// A field, and its bits with their names.
type Bits = (&'static str, &'static [(u8, &'static str)]);

/// The fields of a structure whose bits have names.
fn table(structure: &Structure) -> &'static [Bits] {
    let is = |other: &Structure| core::ptr::eq(structure, other);
    if is(&identify::CONTROLLER) {
        CONTROLLER
    } else if is(&identify::NAMESPACE) || is(&identify::INDEPENDENT_NAMESPACE) {
        NAMESPACE
    } else if is(&log::SMART) {
        SMART
    } else {
        &[]
    }
}

/// The bits that are set, by field; fields without such a bit are left out. Bits without a name here are, too.
pub fn set_bits(decoded: &Decoded<'_>) -> Vec<(&'static str, Vec<&'static str>)> {
    let names = |(field, bits): &Bits| {
        let value = decoded.get(field)?;
        let set = bits.iter().filter(|(bit, _)| value >> bit & 1 != 0);
        Some((*field, set.map(|(_, name)| *name).collect::<Vec<_>>()))
    };
    table(decoded.structure()).iter().filter_map(names).filter(|(_, names)| !names.is_empty()).collect()
}

static CONTROLLER: &[Bits] = &[
    (
        "cmic",
        &[
            (0, "Multiple Ports"),
            (1, "Multiple Controllers"),
            (2, "SR-IOV Virtual Function"),
            (3, "Asymmetric Namespace Access Reporting"),
        ],
    ),
    (
        "oaes",
        &[
            (8, "Namespace Attribute Notices"),
            (9, "Firmware Activation Notices"),
            (11, "Asymmetric Namespace Access Change Notices"),
            (12, "Predictable Latency Event Aggregate Log Change Notices"),
            (13, "LBA Status Information Notices"),
            (14, "Endurance Group Event Aggregate Log Page Change Notices"),
            (15, "Normal NVM Subsystem Shutdown"),
            (27, "Zone Descriptor Changed Notices"),
            (31, "Discovery Log Page Change Notification"),
        ],
    ),
    (
        "ctratt",
        &[
            (0, "128-bit Host Identifier"),
            (1, "Non-Operational Power State Permissive Mode"),
            (2, "NVM Sets"),
            (3, "Read Recovery Levels"),
            (4, "Endurance Groups"),
            (5, "Predictable Latency Mode"),
            (6, "Traffic Based Keep Alive"),
            (7, "Namespace Granularity"),
            (8, "SQ Associations"),
            (9, "UUID List"),
            (10, "Multi-Domain Subsystem"),
            (11, "Fixed Capacity Management"),
            (12, "Variable Capacity Management"),
            (13, "Delete Endurance Group"),
            (14, "Delete NVM Set"),
            (15, "Extended LBA Formats"),
        ],
    ),
    (
        "oacs",
        &[
            (0, "Security Send and Security Receive"),
            (1, "Format NVM"),
            (2, "Firmware Commit and Firmware Image Download"),
            (3, "Namespace Management and Attachment"),
            (4, "Device Self-test"),
            (5, "Directives"),
            (6, "NVMe-MI Send and NVMe-MI Receive"),
            (7, "Virtualization Management"),
            (8, "Doorbell Buffer Config"),
            (9, "Get LBA Status"),
            (10, "Command and Feature Lockdown"),
        ],
    ),
    (
        "frmw",
        &[
            (0, "First Firmware Slot Read Only"),
            (4, "Firmware Activation Without Reset"),
            (5, "Multiple Update Detection"),
        ],
    ),
    (
        "lpa",
        &[
            (0, "SMART / Health Information for each Namespace"),
            (1, "Commands Supported and Effects"),
            (2, "Extended Data for Get Log Page"),
            (3, "Telemetry"),
            (4, "Persistent Event"),
            (5, "Supported Log Pages and Feature Identifiers"),
            (6, "Telemetry Data Area 4"),
        ],
    ),
    ("sanicap", &[(0, "Crypto Erase"), (1, "Block Erase"), (2, "Overwrite")]),
    (
        "oncs",
        &[
            (0, "Compare"),
            (1, "Write Uncorrectable"),
            (2, "Dataset Management"),
            (3, "Write Zeroes"),
            (4, "Save and Select"),
            (5, "Reservations"),
            (6, "Timestamp"),
            (7, "Verify"),
            (8, "Copy"),
        ],
    ),
    ("fuses", &[(0, "Compare and Write")]),
    (
        "fna",
        &[
            (0, "Format Applies to All Namespaces"),
            (1, "Secure Erase Applies to All Namespaces"),
            (2, "Cryptographic Erase"),
            (3, "Format NVM Not for All Namespaces by FFFFFFFFh"),
        ],
    ),
    ("vwc", &[(0, "Volatile Write Cache Present")]),
    (
        "nwpc",
        &[
            (0, "No Write Protect and Write Protect"),
            (1, "Write Protect Until Power Cycle"),
            (2, "Permanent Write Protect"),
        ],
    ),
    ("ocfs", &[(0, "Copy Format 0h"), (1, "Copy Format 1h")]),
];

static NAMESPACE: &[Bits] = &[
    (
        "nsfeat",
        &[
            (0, "Thin Provisioning"),
            (1, "Atomic Write Fields of the Namespace"),
            (2, "Deallocated or Unwritten Logical Block Error"),
            (3, "Identifiers Never Reused"),
            (4, "Optimal Performance Fields"),
        ],
    ),
    ("mc", &[(0, "Metadata in Extended Blocks"), (1, "Metadata in Memory of its Own")]),
    (
        "dpc",
        &[
            (0, "Protection Information Type 1"),
            (1, "Protection Information Type 2"),
            (2, "Protection Information Type 3"),
            (3, "Protection Information in First Bytes"),
            (4, "Protection Information in Last Bytes"),
        ],
    ),
    ("nmic", &[(0, "Shared Namespace")]),
    (
        "rescap",
        &[
            (0, "Persist Through Power Loss"),
            (1, "Write Exclusive"),
            (2, "Exclusive Access"),
            (3, "Write Exclusive - Registrants Only"),
            (4, "Exclusive Access - Registrants Only"),
            (5, "Write Exclusive - All Registrants"),
            (6, "Exclusive Access - All Registrants"),
            (7, "Ignore Existing Key as in 1.3"),
        ],
    ),
    ("dlfeat", &[(3, "Deallocate in Write Zeroes"), (4, "Guard of Deallocated Blocks is a CRC")]),
    ("nsattr", &[(0, "Write Protected")]),
];

static SMART: &[Bits] = &[(
    "critical_warning",
    &[
        (0, "Available Spare Below Threshold"),
        (1, "Temperature Beyond Threshold"),
        (2, "Reliability Degraded"),
        (3, "Media Read Only"),
        (4, "Volatile Memory Backup Failed"),
        (5, "Persistent Memory Region Read Only or Unreliable"),
    ],
)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_one_of_its_structure_and_has_the_bits() {
        for structure in [&identify::CONTROLLER, &identify::NAMESPACE, &log::SMART] {
            for (name, bits) in table(structure) {
                let field = crate::layout::find(structure.fields, name).expect("a field of the structure");
                assert!(bits.is_sorted_by(|a, b| a.0 < b.0), "{name}");
                assert!(bits.iter().all(|(bit, _)| u16::from(*bit) < field.bits), "{name}");
            }
        }
    }
}
