//! Log pages: Base Specification 2.0 ("Log Page Identifiers").

use crate::layout::little::{bits, flag, number, wide};
use crate::layout::text;
use crate::structure::{Items, Structure, to_end};

/// Log page identifiers.
pub mod lid {
    /// Supported Log Pages.
    pub const SUPPORTED: u8 = 0x00;
    /// Error Information.
    pub const ERRORS: u8 = 0x01;
    /// SMART / Health Information.
    pub const SMART: u8 = 0x02;
    /// Firmware Slot Information.
    pub const FIRMWARE: u8 = 0x03;
    /// Commands Supported and Effects.
    pub const EFFECTS: u8 = 0x05;
}

/// The layout of a log page; `None` for one without a layout here.
pub fn by_lid(lid: u8) -> Option<&'static Structure> {
    Some(match lid {
        lid::SUPPORTED => &SUPPORTED,
        lid::ERRORS => &ERRORS,
        lid::SMART => &SMART,
        lid::FIRMWARE => &FIRMWARE,
        lid::EFFECTS => &EFFECTS,
        _ => return None,
    })
}

/// SMART / Health Information (02h). Temperatures are in kelvins, times in minutes except `power_on_hours`, data units are
/// thousands of 512 bytes, rounded up.
pub static SMART: Structure = Structure {
    name: "SMART / Health Information log page",
    standard: "NVMe Base 2.0",
    fields: &[
        number("critical_warning", 0, 1),
        number("temperature", 1, 2),
        number("avail_spare", 3, 1),
        number("spare_thresh", 4, 1),
        number("percent_used", 5, 1),
        number("endurance_grp_critical_warning_summary", 6, 1),
        wide("data_units_read", 32),
        wide("data_units_written", 48),
        wide("host_read_commands", 64),
        wide("host_write_commands", 80),
        wide("controller_busy_time", 96),
        wide("power_cycles", 112),
        wide("power_on_hours", 128),
        wide("unsafe_shutdowns", 144),
        wide("media_errors", 160),
        wide("num_err_log_entries", 176),
        number("warning_temp_time", 192, 4),
        number("critical_comp_time", 196, 4),
        number("temperature_sensor_1", 200, 2),
        number("temperature_sensor_2", 202, 2),
        number("temperature_sensor_3", 204, 2),
        number("temperature_sensor_4", 206, 2),
        number("temperature_sensor_5", 208, 2),
        number("temperature_sensor_6", 210, 2),
        number("temperature_sensor_7", 212, 2),
        number("temperature_sensor_8", 214, 2),
        number("thm_temp1_trans_count", 216, 4),
        number("thm_temp2_trans_count", 220, 4),
        number("thm_temp1_total_time", 224, 4),
        number("thm_temp2_total_time", 228, 4),
    ],
    length: |_| 512,
    items: None,
};

/// Error Information (01h): the last errors, the newest first.
pub static ERRORS: Structure = Structure {
    name: "Error Information log page",
    standard: "NVMe Base 2.0",
    fields: &[],
    length: to_end,
    items: Some(Items { start: |_| 0, end: to_end, each: |_| &ERROR }),
};

/// An entry of the Error Information log page.
pub static ERROR: Structure = Structure {
    name: "error information",
    standard: "NVMe Base 2.0",
    fields: &[
        number("error_count", 0, 8),
        number("sqid", 8, 2),
        number("cmdid", 10, 2),
        flag("phase_tag", 12, 0),
        bits("status_field", 12, 1, 15),
        number("parm_error_location", 14, 2),
        number("lba", 16, 8),
        number("nsid", 24, 4),
        number("vs", 28, 1),
        number("trtype", 29, 1),
        number("cs", 32, 8),
        number("trtype_spec_info", 40, 2),
    ],
    length: |_| 64,
    items: None,
};

/// Firmware Slot Information (03h).
pub static FIRMWARE: Structure = Structure {
    name: "Firmware Slot Information log page",
    standard: "NVMe Base 2.0",
    fields: &[
        bits("afi", 0, 0, 3),
        bits("nafi", 0, 4, 3),
        text("frs1", 8, 8),
        text("frs2", 16, 8),
        text("frs3", 24, 8),
        text("frs4", 32, 8),
        text("frs5", 40, 8),
        text("frs6", 48, 8),
        text("frs7", 56, 8),
    ],
    length: |_| 512,
    items: None,
};

/// Supported Log Pages (00h): an entry for each identifier from 0 on.
pub static SUPPORTED: Structure = Structure {
    name: "Supported Log Pages log page",
    standard: "NVMe Base 2.0",
    fields: &[],
    length: |_| 1024,
    items: Some(Items { start: |_| 0, end: to_end, each: |_| &SUPPORTED_PAGE }),
};

/// An entry of the Supported Log Pages log page.
static SUPPORTED_PAGE: Structure = Structure {
    name: "LID supported and effects",
    standard: "NVMe Base 2.0",
    fields: &[flag("lsupp", 0, 0), flag("ios", 0, 1), number("lid_specific", 2, 2)],
    length: |_| 4,
    items: None,
};

/// Commands Supported and Effects (05h): an entry for each operation code of the admin queue, then for each of I/O queues.
pub static EFFECTS: Structure = Structure {
    name: "Commands Supported and Effects log page",
    standard: "NVMe Base 2.0",
    fields: &[],
    length: |_| 4096,
    items: Some(Items { start: |_| 0, end: |_| 2048, each: |_| &EFFECT }),
};

/// An entry of the Commands Supported and Effects log page.
pub static EFFECT: Structure = Structure {
    name: "command supported and effects",
    standard: "NVMe Base 2.0",
    fields: &[
        flag("csupp", 0, 0),
        flag("lbcc", 0, 1),
        flag("ncc", 0, 2),
        flag("nic", 0, 3),
        flag("ccc", 0, 4),
        bits("cse", 2, 0, 3),
        flag("uss", 2, 3),
        bits("csp", 2, 4, 12),
    ],
    length: |_| 4,
    items: None,
};
