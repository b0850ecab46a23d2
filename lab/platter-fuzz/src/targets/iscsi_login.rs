//! Login requests of an iSCSI initiator, with and without CHAP.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use platter_disk::device::Device;
use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{HEADER_BYTES, Header, flag, opcode, padding};
use platter_serve::chap::Chap;
use platter_serve::iscsi::login::{Login, Step};
use platter_serve::served::{Devices, Served};
use std::sync::LazyLock;

pub(super) const TARGET: Target = Target {
    name: "iscsi-login",
    summary: "login requests of an iSCSI initiator",
    generate,
    mutate,
    read,
    memory: 1 << 20,
};

const PREFIX: &str = "iqn.2026-11.localhost.platter:";

static DEVICES: LazyLock<Devices> = LazyLock::new(|| {
    let devices = Devices::default();
    let served = Device::null(1 << 20).ok().and_then(|device| Served::new("disk", device).ok());
    served.and_then(|served| devices.add(served).ok());
    devices
});

/// No input can contain the answer to a challenge, which is random.
static CHAP: LazyLock<Option<Chap>> = LazyLock::new(|| Chap::new("user", "a secret of 96 bits").ok());

const PAIRS: &[(&str, &[&str])] = &[
    ("InitiatorName", &["iqn.2026-11.localhost:a", "", "a"]),
    ("TargetName", &["iqn.2026-11.localhost.platter:disk", "iqn.2026-11.localhost.platter:none", "disk"]),
    ("SessionType", &["Normal", "Discovery", "Other"]),
    ("AuthMethod", &["CHAP", "None", "CHAP,None", "KRB5"]),
    ("CHAP_A", &["5", "7,5", "7"]),
    ("CHAP_N", &["user", "other"]),
    ("CHAP_R", &["0x00112233445566778899aabbccddeeff", "0bAAAA", "0x", "1"]),
    ("CHAP_C", &["0x0011"]),
    ("HeaderDigest", &["CRC32C,None", "None", "X"]),
    ("DataDigest", &["CRC32C", "None,CRC32C"]),
    ("InitialR2T", &["Yes", "No", "yes"]),
    ("ImmediateData", &["Yes", "No"]),
    ("MaxRecvDataSegmentLength", &["512", "262144", "16777216", "-1"]),
    ("MaxBurstLength", &["512", "16777215", "0"]),
    ("FirstBurstLength", &["512", "65536", "4294967296"]),
    ("MaxConnections", &["1", "65535", "0"]),
    ("DefaultTime2Wait", &["0", "3601"]),
    ("ErrorRecoveryLevel", &["2"]),
    ("DataPDUInOrder", &["Yes", "maybe"]),
    ("IFMarker", &["No"]),
    ("TaskReporting", &["FastAbort"]),
    ("iSCSIProtocolLevel", &["2"]),
    ("InitiatorAlias", &["x"]),
    ("X-a", &["b"]),
];

fn request(rng: &mut Rng) -> Vec<u8> {
    let (mut data, count) = (Vec::new(), rng.below(8));
    // Those without which nothing else is looked at.
    for (key, values) in &PAIRS[..2] {
        if rng.below(8) > 0 {
            text::push(&mut data, key, values[0]);
        }
    }
    for _ in 0..count {
        let (key, values) = *rng.pick(PAIRS);
        let value: &str = values[rng.index(values.len())];
        text::push(&mut data, key, value);
    }
    let whole = flag::FINAL | 1 << 2 | 3;
    let stages = [whole, whole, whole, flag::FINAL | 1, 0, 1 << 2, flag::CONTINUE | 1 << 2, flag::FINAL | 3];
    let header = Header::new(opcode::LOGIN | 0x40, *rng.pick(&stages)).with_data_bytes(data.len());
    let mut unit = [&header.0[..], &data].concat();
    unit.resize(unit.len() + padding(data.len()), 0);
    unit
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut all = vec![rng.below(2) as u8];
    (0..1 + rng.below(4)).for_each(|_| all.extend(request(rng)));
    all
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    match rng.below(4) {
        0 => bytes::mutate(rng, input, other),
        // A byte of the first header.
        1 => {
            let (at, value) = (1 + rng.index(HEADER_BYTES), rng.any() as u8);
            bytes::overwrite(input, at, &[value]);
        }
        _ => input.extend(request(rng)),
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((choice, mut rest)) = input.split_first() else {
        return Ok(Verdict::Refused("no login".to_owned()));
    };
    let chap = CHAP.as_ref().filter(|_| choice & 1 != 0);
    let mut login = Login::new(&DEVICES, PREFIX, chap, 128);
    while let Some(first) = rest.first_chunk() {
        let header = Header(*first);
        let bytes = header.data_bytes().min(rest.len() - HEADER_BYTES);
        let data = &rest[HEADER_BYTES..HEADER_BYTES + bytes];
        rest = rest.get(HEADER_BYTES + bytes + padding(bytes)..).unwrap_or_default();
        match login.take(&header, data, 1) {
            Step::Reply(answer, data) => {
                text::parse(&data).map_err(|error| format!("an answer that is no text: {error}"))?;
                hold(answer.data_bytes() == data.len(), || format!("{} bytes of text", data.len()))?;
            }
            Step::Refuse(answer, why) => {
                hold(answer.0[36] != 0, || format!("a refusal without a status: {why}"))?;
                return Ok(Verdict::Refused(why));
            }
            Step::Agreed(_, _, agreed) => {
                let params = agreed.params;
                hold(chap.is_none(), || format!("{} is in without the secret", agreed.port))?;
                hold(!agreed.port.starts_with(','), || "an initiator without a name".to_owned())?;
                hold((512..1 << 24).contains(&params.max_send), || format!("{params:?}"))?;
                hold((512..1 << 24).contains(&params.max_burst), || format!("{params:?}"))?;
                hold((512..=256 << 10).contains(&params.first_burst), || format!("{params:?}"))?;
                return Ok(Verdict::Accepted);
            }
        }
    }
    Ok(Verdict::Refused("the initiator sends no more".to_owned()))
}
