//! The login phase as a state machine without I/O (RFC 7143, sections 6 and 13).

use super::names::{self, PORTAL_GROUP};
use crate::chap::{Challenge, Chap};
use crate::served::{Devices, Served};
use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{Header, at, flag, opcode};
use std::sync::Arc;

/// Longest text of one login or text request, over all its units.
pub(super) const MAX_TEXT: usize = 16 << 10;

/// Longest data segment that initiators may send.
pub(super) const MAX_RECEIVE: u32 = 256 << 10;

/// Most data of one burst: the length that one R2T asks for.
const MAX_BURST: u32 = 16 << 20;

/// Most data that comes without an R2T.
const FIRST_BURST: u32 = 256 << 10;

/// Status class and detail of a Login Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status(u16);

impl Status {
    const INITIATOR_ERROR: Status = Status(0x0200);
    const AUTHENTICATION: Status = Status(0x0201);
    /// There is no such target, or no longer.
    pub(super) const NOT_FOUND: Status = Status(0x0203);
    const VERSION: Status = Status(0x0205);
    const TOO_MANY_CONNECTIONS: Status = Status(0x0206);
    const NO_SESSION: Status = Status(0x020a);
    const MISSING_PARAMETER: Status = Status(0x0207);
    const SESSION_TYPE: Status = Status(0x0209);
    const INVALID_DURING_LOGIN: Status = Status(0x020b);
    /// The target cannot take another session now.
    pub(super) const OUT_OF_RESOURCES: Status = Status(0x0302);
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Whether a digest follows each header.
    pub header_digest: bool,
    /// Whether one follows each data segment.
    pub data_digest: bool,
    /// Longest data segment that the initiator takes.
    pub max_send: u32,
    /// Most bytes of a burst.
    pub max_burst: u32,
    /// Most bytes that come without an R2T.
    pub first_burst: u32,
    /// Data-Out comes only after an R2T.
    pub initial_r2t: bool,
    /// A command may bring data along.
    pub immediate_data: bool,
}

impl Default for Params {
    /// The values of keys that are not negotiated.
    fn default() -> Params {
        Params {
            header_digest: false,
            data_digest: false,
            max_send: 8192,
            max_burst: 262_144,
            first_burst: 65_536,
            initial_r2t: true,
            immediate_data: true,
        }
    }
}

/// A session that a login has led to.
pub struct Agreed {
    /// The name of the initiator port: its name and ISID.
    pub port: String,
    /// The handle of the session.
    pub tsih: u16,
    /// The device; `None`: a discovery session.
    pub served: Option<Arc<Served>>,
    /// The values of the keys.
    pub params: Params,
    /// CmdSN of the next command.
    pub exp_cmd_sn: u32,
    /// StatSN of the next response.
    pub stat_sn: u32,
}

/// What follows a login request.
pub enum Step {
    /// This is to be sent; the login goes on.
    Reply(Header, Vec<u8>),
    /// This is to be sent last; a session begins.
    Agreed(Header, Vec<u8>, Agreed),
    /// This is to be sent, and the connection closed, for a reason.
    Refuse(Header, String),
}

/// How far the authentication is.
enum Auth {
    /// No method has been agreed on.
    Open,
    /// CHAP, and nothing of it has happened.
    Begun,
    /// A challenge was sent.
    Challenged(Challenge),
    /// The initiator is who it says.
    Passed,
}

/// A login.
pub struct Login<'a> {
    devices: &'a Devices,
    prefix: &'a str,
    chap: Option<&'a Chap>,
    /// Most commands at a time.
    depth: u32,
    stage: u8,
    auth: Auth,
    collected: Vec<u8>,
    initiator: Option<String>,
    target: Option<String>,
    served: Option<Arc<Served>>,
    discovery: bool,
    params: Params,
    /// Our own length of data segments has been declared.
    declared: bool,
    /// The first response has said which portal group this is.
    grouped: bool,
    isid: Option<[u8; 6]>,
    stat_sn: u32,
}

/// Security negotiation, operational negotiation and the full feature phase.
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL_FEATURE: u8 = 3;

impl<'a> Login<'a> {
    /// A login to one of the devices, whose targets' names begin with `prefix`. `depth`: most commands at a time.
    pub fn new(devices: &'a Devices, prefix: &'a str, chap: Option<&'a Chap>, depth: usize) -> Login<'a> {
        Login {
            devices,
            prefix,
            chap,
            depth: depth as u32,
            stage: SECURITY,
            auth: if chap.is_some() { Auth::Open } else { Auth::Passed },
            collected: Vec::new(),
            initiator: None,
            target: None,
            served: None,
            discovery: false,
            params: Params::default(),
            declared: false,
            grouped: false,
            isid: None,
            stat_sn: 1,
        }
    }

    /// Takes a request with its text. `tsih` is the handle of the session that may begin.
    pub fn take(&mut self, header: &Header, data: &[u8], tsih: u16) -> Step {
        match self.try_take(header, data) {
            Ok((flags, answer)) => {
                let done = flags & (flag::FINAL | FULL_FEATURE) == flag::FINAL | FULL_FEATURE;
                let response = self.response(header, flags, Status(0), if done { tsih } else { 0 });
                let response = response.with_data_bytes(answer.len());
                match done {
                    true => Step::Agreed(response, answer, self.agreed(header, tsih)),
                    false => Step::Reply(response, answer),
                }
            }
            Err((status, why)) => Step::Refuse(self.response(header, 0, status, 0), why),
        }
    }

    /// A response that refuses a session after all.
    pub(super) fn refusal(&self, header: &Header, status: Status) -> Header {
        self.response(header, 0, status, 0)
    }

    fn is_authenticated(&self) -> bool {
        matches!(self.auth, Auth::Passed)
    }

    fn response(&self, header: &Header, flags: u8, Status(status): Status, tsih: u16) -> Header {
        let exp_cmd_sn = header.get(at::CMD_SN);
        let mut response = Header::new(opcode::LOGIN_RESPONSE, flags)
            .with(at::TASK_TAG, header.task_tag())
            .with(at::STAT_SN, self.stat_sn.wrapping_sub(1))
            .with(at::EXP_CMD_SN, exp_cmd_sn)
            .with(at::MAX_CMD_SN, exp_cmd_sn.wrapping_add(self.depth).wrapping_sub(1));
        response.0[8..14].copy_from_slice(&header.0[8..14]);
        let handle = if tsih == 0 { [header.0[14], header.0[15]] } else { tsih.to_be_bytes() };
        response.0[14..16].copy_from_slice(&handle);
        response.0[36..38].copy_from_slice(&status.to_be_bytes());
        response
    }

    /// The name of the initiator port.
    fn port(&self) -> String {
        let isid = self.isid.unwrap_or_default();
        let initiator = self.initiator.as_deref().unwrap_or_default();
        let isid = isid.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        format!("{initiator},i,0x{isid:012x}")
    }

    /// Refuses a connection to a session that there is already.
    fn refuse_joining(&self, header: &Header) -> Result<(), (Status, String)> {
        let tsih = u16::from_be_bytes([header.0[14], header.0[15]]);
        let exists = |served: &Arc<Served>| served.unit().has_session(&self.port(), tsih);
        match (tsih, &self.served) {
            (0, _) => Ok(()),
            (_, Some(served)) if exists(served) => {
                Err((Status::TOO_MANY_CONNECTIONS, "a session has one connection".to_owned()))
            }
            _ => Err((Status::NO_SESSION, format!("there is no session {tsih} of this initiator"))),
        }
    }

    fn agreed(&self, header: &Header, tsih: u16) -> Agreed {
        let max_burst = self.params.max_burst;
        Agreed {
            port: self.port(),
            tsih,
            served: self.served.clone(),
            params: Params { first_burst: self.params.first_burst.min(max_burst), ..self.params },
            exp_cmd_sn: header.get(at::CMD_SN),
            stat_sn: self.stat_sn,
        }
    }

    /// The flags and the text of the response.
    fn try_take(&mut self, header: &Header, data: &[u8]) -> Result<(u8, Vec<u8>), (Status, String)> {
        self.stat_sn = self.stat_sn.wrapping_add(1);
        let fail = |status, why: &str| Err((status, why.to_owned()));
        if header.opcode() != opcode::LOGIN {
            return fail(Status::INVALID_DURING_LOGIN, "another request than a login before the session");
        }
        if header.0[3] > 0 {
            return fail(Status::VERSION, "the initiator has no version of iSCSI that is known here");
        }
        if header.flags() & flag::CONTINUE != 0 && header.is_final() {
            return fail(Status::INITIATOR_ERROR, "a text that goes on and ends a stage of the login");
        }
        let isid = header.0[8..14].try_into().unwrap_or_default();
        if *self.isid.get_or_insert(isid) != isid {
            return fail(Status::INITIATOR_ERROR, "the ISID changed during the login");
        }
        let (current, next) = (header.flags() >> 2 & 3, header.flags() & 3);
        // The first request may begin with the second stage if nothing has to be authenticated.
        let first = self.initiator.is_none() && self.collected.is_empty();
        if current != self.stage && !(first && current == OPERATIONAL) {
            return fail(Status::INITIATOR_ERROR, "a request of another stage of the login");
        }
        if current == OPERATIONAL && !self.is_authenticated() {
            return fail(Status::AUTHENTICATION, "the initiator did not authenticate itself");
        }
        self.stage = current;
        if self.collected.len() + data.len() > MAX_TEXT {
            return fail(Status::INITIATOR_ERROR, "the text of the login is too long");
        }
        self.collected.extend(data);
        if header.flags() & flag::CONTINUE != 0 {
            return Ok((current << 2, Vec::new()));
        }
        let pairs = text::parse(&std::mem::take(&mut self.collected))
            .map_err(|error| (Status::INITIATOR_ERROR, error.to_string()))?;
        let mut answer = Vec::new();
        self.identify(&pairs, &mut answer)?;
        self.refuse_joining(header)?;
        if current == SECURITY {
            self.authenticate(&pairs, &mut answer)?;
        }
        // The other burst cannot be longer, so it is answered after this one.
        let of_burst = |(key, _): &&(String, String)| key == "MaxBurstLength";
        for (key, value) in pairs.iter().filter(of_burst).chain(pairs.iter().filter(|pair| !of_burst(pair))) {
            self.negotiate(key, value, &mut answer)?;
        }
        self.declare(current, &mut answer);
        let moves = header.is_final() && self.is_authenticated();
        if !moves {
            return Ok((current << 2, answer));
        }
        if next <= current || next == 2 {
            return fail(Status::INITIATOR_ERROR, "the login moves to a stage that cannot follow");
        }
        self.stage = next;
        Ok((flag::FINAL | current << 2 | next, answer))
    }

    /// Which initiator and target these are; needed in the first request.
    fn identify(&mut self, pairs: &[(String, String)], answer: &mut Vec<u8>) -> Result<(), (Status, String)> {
        let value = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
        if self.initiator.is_some() {
            return Ok(());
        }
        let missing = |key: &str| (Status::MISSING_PARAMETER, format!("the login has no {key}"));
        // A comma separates it from the ISID in the name of the port.
        let fits = |name: &&str| (1..=223).contains(&name.len()) && !name.contains([',', ' ']);
        let name = value("InitiatorName").filter(fits);
        self.initiator = Some(name.ok_or_else(|| missing("InitiatorName"))?.to_owned());
        match value("SessionType").unwrap_or("Normal") {
            "Discovery" => self.discovery = true,
            "Normal" => {
                let name = value("TargetName").ok_or_else(|| missing("TargetName"))?;
                let found = names::find(self.devices, self.prefix, name);
                let lost = || (Status::NOT_FOUND, format!("there is no target {name:?}"));
                self.served = Some(found.ok_or_else(lost)?);
                self.target = Some(name.to_owned());
            }
            other => return Err((Status::SESSION_TYPE, format!("a session of the type {other:?}"))),
        }
        if !self.discovery && !std::mem::replace(&mut self.grouped, true) {
            text::push(answer, "TargetPortalGroupTag", PORTAL_GROUP);
        }
        Ok(())
    }

    fn authenticate(
        &mut self,
        pairs: &[(String, String)],
        answer: &mut Vec<u8>,
    ) -> Result<(), (Status, String)> {
        let value = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
        let fail = |why: &str| Err((Status::AUTHENTICATION, why.to_owned()));
        if let Some(methods) = value("AuthMethod") {
            let wanted = if self.chap.is_some() { "CHAP" } else { "None" };
            if !methods.split(',').any(|method| method == wanted) {
                return fail("the initiator does not offer the way of authentication that is required");
            }
            text::push(answer, "AuthMethod", wanted);
            if self.chap.is_some() {
                self.auth = Auth::Begun;
            }
        }
        let Some(chap) = self.chap else { return Ok(()) };
        if let Some(algorithms) = value("CHAP_A") {
            if !matches!(self.auth, Auth::Begun) {
                return fail("CHAP begins before it was agreed on");
            }
            let Some(algorithm) = chap.choose(algorithms) else {
                return fail("the initiator has no algorithm of CHAP that is known here");
            };
            let challenge =
                Challenge::new().map_err(|error| (Status::OUT_OF_RESOURCES, error.to_string()))?;
            text::push(answer, "CHAP_A", algorithm);
            text::push(answer, "CHAP_I", &challenge.identifier().to_string());
            text::push(answer, "CHAP_C", &text::to_hex(challenge.bytes()));
            self.auth = Auth::Challenged(challenge);
            return Ok(());
        }
        if let (Some(name), Some(response)) = (value("CHAP_N"), value("CHAP_R")) {
            let Auth::Challenged(challenge) = &self.auth else {
                return fail("an answer to a challenge that was not sent");
            };
            if !chap.accepts(challenge, name, response) {
                return fail("the name or the secret of the initiator is wrong");
            }
            if value("CHAP_C").is_some() {
                return fail("the initiator wants the target to authenticate itself, which is not supported");
            }
            self.auth = Auth::Passed;
        }
        Ok(())
    }

    fn declare(&mut self, current: u8, answer: &mut Vec<u8>) {
        if current == OPERATIONAL && !std::mem::replace(&mut self.declared, true) {
            text::push(answer, "MaxRecvDataSegmentLength", &MAX_RECEIVE.to_string());
        }
    }

    /// Answers a key of the operational negotiation.
    fn negotiate(&mut self, key: &str, value: &str, answer: &mut Vec<u8>) -> Result<(), (Status, String)> {
        let number = |most: u32| {
            text::number(value).and_then(|number| u32::try_from(number).ok()).filter(|number| *number <= most)
        };
        // Discovery is over in a moment, and has none.
        let digests = if self.discovery { &["None"][..] } else { &["CRC32C", "None"] };
        let digest = || value.split(',').find(|one| digests.contains(one));
        let params = &mut self.params;
        // The answer to something that was declared here.
        if ["NotUnderstood", "Irrelevant", "Reject"].contains(&value) {
            return Ok(());
        }
        let reply = match key {
            "HeaderDigest" => {
                digest().inspect(|chosen| params.header_digest = *chosen == "CRC32C").map(str::to_owned)
            }
            "DataDigest" => {
                digest().inspect(|chosen| params.data_digest = *chosen == "CRC32C").map(str::to_owned)
            }
            // It is declared, not negotiated: what was wrong cannot be answered.
            "MaxRecvDataSegmentLength" => {
                let length = number((1 << 24) - 1).filter(|length| *length >= 512);
                let wrong = || format!("MaxRecvDataSegmentLength={value}; it is 512 to 16777215");
                params.max_send = length.ok_or_else(|| (Status::INITIATOR_ERROR, wrong()))?;
                return Ok(());
            }
            "InitialR2T" => switch(value).inspect(|on| params.initial_r2t = *on).map(word),
            "ImmediateData" => switch(value).inspect(|on| params.immediate_data = *on).map(word),
            "MaxBurstLength" => number((1 << 24) - 1).filter(|length| *length >= 512).map(|length| {
                params.max_burst = length.min(MAX_BURST);
                params.max_burst.to_string()
            }),
            "FirstBurstLength" => number((1 << 24) - 1).filter(|length| *length >= 512).map(|length| {
                params.first_burst = length.min(FIRST_BURST).min(params.max_burst);
                params.first_burst.to_string()
            }),
            "DefaultTime2Wait" => number(3600).map(|time| time.to_string()),
            "DefaultTime2Retain" | "ErrorRecoveryLevel" => number(3600).map(|_| "0".to_owned()),
            "MaxConnections" | "MaxOutstandingR2T" => {
                number(65_535).filter(|count| *count > 0).map(|_| "1".to_owned())
            }
            "DataPDUInOrder" | "DataSequenceInOrder" => switch(value).map(|_| word(true)),
            "IFMarker" | "OFMarker" => switch(value).map(|_| word(false)),
            "TaskReporting" => value.split(',').find(|one| *one == "RFC3720").map(str::to_owned),
            "iSCSIProtocolLevel" => number(31).map(|level| level.min(1).to_string()),
            "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType" | "AuthMethod" => return Ok(()),
            _ if key.starts_with("CHAP_") => return Ok(()),
            _ => Some("NotUnderstood".to_owned()),
        };
        text::push(answer, key, reply.as_deref().unwrap_or("Reject"));
        Ok(())
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn word(on: bool) -> String {
    if on { "Yes" } else { "No" }.to_owned()
}
