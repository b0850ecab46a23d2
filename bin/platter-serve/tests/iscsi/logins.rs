//! Logins, discovery and logouts.

use crate::initiator::{TARGET, Terms, attach, connect};
use crate::{serve, serve_with};
use platter_disk::device::Device;
use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{Header, at, flag, opcode};
use platter_scsi::cdb::{self, Cdb};
use platter_serve::chap::Chap;
use platter_serve::export::Options;
use platter_serve::served::Served;
use platter_serve::server::Server;
use std::time::Duration;

/// Flags of a request that ends the security stage and moves to the operational one, and of one that ends that.
const FROM_SECURITY: u8 = flag::FINAL | 1;
const TO_FULL_FEATURE: u8 = flag::FINAL | 1 << 2 | 3;

fn status(header: &Header) -> u16 {
    u16::from_be_bytes([header.0[36], header.0[37]])
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> &'a str {
    &pairs.iter().find(|(known, _)| known == key).unwrap_or_else(|| panic!("no {key} in {pairs:?}")).1
}

const NAME: (&str, &str) = ("InitiatorName", "iqn.2026-11.localhost:test");

fn ram() -> Device {
    Device::ram(1 << 20).unwrap()
}

#[test]
fn keys_are_negotiated_as_the_standard_has_them() {
    let fixture = serve(ram());
    let mut initiator = connect(&fixture.address);
    let pairs = [
        NAME,
        ("TargetName", TARGET),
        ("HeaderDigest", "X-other,CRC32C,None"),
        ("DataDigest", "None"),
        ("MaxConnections", "8"),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxBurstLength", "16777215"),
        ("FirstBurstLength", "4096"),
        ("MaxOutstandingR2T", "4"),
        ("ErrorRecoveryLevel", "2"),
        ("DefaultTime2Wait", "2"),
        ("IFMarker", "Yes"),
        ("X-unknown", "1"),
        ("DataPDUInOrder", "perhaps"),
    ];
    let (header, answers) = initiator.login(TO_FULL_FEATURE, &pairs).unwrap();
    assert_eq!((status(&header), header.flags()), (0, TO_FULL_FEATURE));
    assert_ne!(&header.0[14..16], [0, 0], "the session has a handle");
    for (key, expected) in [
        ("TargetPortalGroupTag", "1"),
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "None"),
        ("MaxConnections", "1"),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxBurstLength", "16777215"),
        ("FirstBurstLength", "4096"),
        ("MaxOutstandingR2T", "1"),
        ("ErrorRecoveryLevel", "0"),
        ("DefaultTime2Wait", "2"),
        ("IFMarker", "No"),
        ("X-unknown", "NotUnderstood"),
        ("DataPDUInOrder", "Reject"),
        ("MaxRecvDataSegmentLength", "262144"),
    ] {
        assert_eq!(value(&answers, key), expected, "{key}");
    }
}

#[test]
fn logins_that_cannot_be_are_refused_with_their_reason() {
    let mut fixture = serve(ram());
    let refused = |flags: u8, pairs: &[(&str, &str)], edit: fn(&mut Header)| {
        let mut initiator = connect(&fixture.address);
        let mut data = Vec::new();
        pairs.iter().for_each(|(key, value)| text::push(&mut data, key, value));
        let mut header = Header::new(opcode::LOGIN | 0x40, flags);
        edit(&mut header);
        initiator.send(header, &data).unwrap();
        let (header, _) = initiator.receive().unwrap();
        assert!(initiator.is_closed());
        status(&header)
    };
    let normal = [NAME, ("TargetName", TARGET)];
    let other = [NAME, ("TargetName", "iqn.2026-11.localhost.platter:other")];
    assert_eq!(refused(TO_FULL_FEATURE, &other, |_| {}), 0x0203);
    assert_eq!(refused(TO_FULL_FEATURE, &[NAME], |_| {}), 0x0207);
    assert_eq!(refused(TO_FULL_FEATURE, &normal[1..], |_| {}), 0x0207);
    assert_eq!(refused(TO_FULL_FEATURE, &normal, |header| header.0[3] = 1), 0x0205);
    assert_eq!(refused(TO_FULL_FEATURE, &normal, |header| header.0[15] = 7), 0x020a);
    assert_eq!(refused(TO_FULL_FEATURE | flag::CONTINUE, &normal, |_| {}), 0x0200);
    assert_eq!(refused(TO_FULL_FEATURE, &normal, |header| header.0[0] = opcode::TEXT), 0x020b);
    assert_eq!(refused(flag::FINAL | 1 << 2 | 2, &normal, |_| {}), 0x0200);
    assert_eq!(refused(flag::FINAL | 2 << 2 | 3, &normal, |_| {}), 0x0200);
    let kind = [NAME, ("SessionType", "Other")];
    assert_eq!(refused(TO_FULL_FEATURE, &kind, |_| {}), 0x0209);
    let events = fixture.stop();
    assert_eq!(events.len(), 10);
    assert!(events.iter().any(|event| event.contains("there is no target")), "{events:?}");
}

#[test]
fn a_login_to_a_device_that_is_removed_meanwhile_is_refused() {
    let mut fixture = serve(ram());
    let mut initiator = connect(&fixture.address);
    let begin = [NAME, ("TargetName", TARGET), ("AuthMethod", "None")];
    let (header, _) = initiator.login(FROM_SECURITY, &begin).unwrap();
    assert_eq!((status(&header), header.flags()), (0, FROM_SECURITY));
    let server = fixture.server.as_ref().unwrap();
    // As `device.remove` does: it takes the device out of the list, and then finds no client of it.
    assert!(server.devices().remove("disk").is_some() && server.clients().list().is_empty());
    let (header, _) = initiator.login(TO_FULL_FEATURE, &[]).unwrap();
    assert_eq!(status(&header), 0x0203);
    assert!(server.clients().list().is_empty());
    assert!(initiator.is_closed());
    let events = fixture.stop();
    assert!(events.iter().any(|event| event.contains("its device was removed")), "{events:?}");
}

#[test]
fn text_may_come_in_pieces() {
    let fixture = serve(ram());
    let mut initiator = connect(&fixture.address);
    let mut data = Vec::new();
    [NAME, ("TargetName", TARGET)].iter().for_each(|(key, value)| text::push(&mut data, key, value));
    let (first, rest) = data.split_at(20);
    initiator.send(Header::new(opcode::LOGIN | 0x40, flag::CONTINUE | 1 << 2), first).unwrap();
    let (header, answer) = initiator.receive().unwrap();
    assert_eq!((header.flags(), answer.len(), status(&header)), (1 << 2, 0, 0));
    initiator.send(Header::new(opcode::LOGIN | 0x40, TO_FULL_FEATURE), rest).unwrap();
    let (header, _) = initiator.receive().unwrap();
    assert_eq!((header.flags(), status(&header)), (TO_FULL_FEATURE, 0));
}

#[test]
fn only_those_with_the_secret_get_in() {
    const SECRET: &str = "a secret of 96 bits";
    let mut options = Options::default();
    options.iscsi.chap = Some(Chap::new("user", SECRET).unwrap());
    let fixture = serve_with(ram(), &options);
    // Without authentication, by skipping its stage or by offering none.
    let normal = [NAME, ("TargetName", TARGET)];
    let (header, _) = connect(&fixture.address).login(TO_FULL_FEATURE, &normal).unwrap();
    assert_eq!(status(&header), 0x0201);
    let none = [NAME, ("TargetName", TARGET), ("AuthMethod", "None")];
    let (header, _) = connect(&fixture.address).login(FROM_SECURITY, &none).unwrap();
    assert_eq!(status(&header), 0x0201);
    for (user, secret, expected) in
        [("user", SECRET, 0), ("user", "another secret!", 0x0201), ("other", SECRET, 0x0201)]
    {
        let mut initiator = connect(&fixture.address);
        let begin = [NAME, ("TargetName", TARGET), ("AuthMethod", "None,CHAP")];
        let (header, answers) = initiator.login(FROM_SECURITY, &begin).unwrap();
        assert_eq!((status(&header), header.flags()), (0, 0), "the stage does not end yet");
        assert_eq!(value(&answers, "AuthMethod"), "CHAP");
        let (_, answers) = initiator.login(0, &[("CHAP_A", "7,5")]).unwrap();
        let identifier: u8 = value(&answers, "CHAP_I").parse().unwrap();
        let challenge = text::from_binary(value(&answers, "CHAP_C")).unwrap();
        let response = chap_response(identifier, secret, &challenge);
        let response = [("CHAP_N", user), ("CHAP_R", &*text::to_hex(&response))];
        let (header, _) = initiator.login(FROM_SECURITY, &response).unwrap();
        assert_eq!(status(&header), expected, "{user} {secret}");
        if expected == 0 {
            let (header, _) = initiator.login(TO_FULL_FEATURE, &[]).unwrap();
            assert_eq!((status(&header), header.flags()), (0, TO_FULL_FEATURE));
        }
    }
}

fn chap_response(identifier: u8, secret: &str, challenge: &[u8]) -> [u8; 16] {
    use md5::{Digest, Md5};
    Md5::digest([&[identifier], secret.as_bytes(), challenge].concat()).into()
}

#[test]
fn discovery_lists_the_targets_with_their_address() {
    let fixture = serve(ram());
    let mut initiator = connect(&fixture.address);
    let pairs = [NAME, ("SessionType", "Discovery")];
    assert_eq!(status(&initiator.login(TO_FULL_FEATURE, &pairs).unwrap().0), 0);
    let request = Header::new(opcode::TEXT, flag::FINAL).with(at::CMD_SN, 1).with(at::TRANSFER_TAG, !0);
    initiator.send(request, b"SendTargets=All\0").unwrap();
    let (_, data) = initiator.receive().unwrap();
    let expected = format!("TargetName={TARGET}\0TargetAddress={},1\0", fixture.address);
    assert_eq!(String::from_utf8(data).unwrap(), expected);
    initiator.send(Header::new(opcode::LOGOUT | 0x40, flag::FINAL), &[]).unwrap();
    assert_eq!(initiator.receive().unwrap().0.opcode(), opcode::LOGOUT_RESPONSE);
    assert!(initiator.is_closed());
}

#[test]
fn a_new_session_of_a_port_ends_the_old_one() {
    let mut fixture = serve(ram());
    let mut old = attach(&fixture.address, &Terms::default());
    let mut other = attach(&fixture.address, &Terms { isid: 2, ..Terms::default() });
    let mut new = attach(&fixture.address, &Terms::default());
    assert!(old.is_closed());
    for initiator in [&mut other, &mut new] {
        assert_eq!(initiator.command(&Cdb::new(&cdb::TEST_UNIT_READY), 0, &[]).unwrap().status, 0);
    }
    let header = Header::new(opcode::LOGOUT | 0x40, flag::FINAL).with(at::TASK_TAG, 9);
    new.send(header, &[]).unwrap();
    let (answer, _) = new.receive().unwrap();
    assert_eq!((answer.opcode(), answer.0[2], answer.task_tag()), (opcode::LOGOUT_RESPONSE, 0, 9));
    assert!(new.is_closed());
    assert!(fixture.stop().contains(&"disconnected: the initiator logged out".to_owned()));
}

#[test]
fn a_session_takes_no_second_connection() {
    let fixture = serve(ram());
    let mut first = connect(&fixture.address);
    let pairs = [NAME, ("TargetName", TARGET)];
    let (header, _) = first.login(TO_FULL_FEATURE, &pairs).unwrap();
    let mut second = connect(&fixture.address);
    let mut data = Vec::new();
    pairs.iter().for_each(|(key, value)| text::push(&mut data, key, value));
    let mut joining = Header::new(opcode::LOGIN | 0x40, TO_FULL_FEATURE);
    joining.0[8..16].copy_from_slice(&header.0[8..16]);
    second.send(joining, &data).unwrap();
    assert_eq!(status(&second.receive().unwrap().0), 0x0206);
    assert_eq!(first.command(&Cdb::new(&cdb::TEST_UNIT_READY), 0, &[]).unwrap().why(), (6, (0x29, 0)));
}

#[test]
fn no_more_comes_unasked_than_a_burst_has() {
    let fixture = serve(ram());
    let answers = |pairs: &[(&str, &str)]| {
        let pairs = [&[NAME, ("TargetName", TARGET)], pairs].concat();
        connect(&fixture.address).login(TO_FULL_FEATURE, &pairs).unwrap().1
    };
    let both = answers(&[("FirstBurstLength", "65536"), ("MaxBurstLength", "8192")]);
    assert_eq!((value(&both, "FirstBurstLength"), value(&both, "MaxBurstLength")), ("8192", "8192"));
    // One that is not negotiated has its default, and no more than the other.
    let terms = Terms { max_burst: 1024, first_burst: 1024, ..Terms::default() };
    let mut initiator = connect(&fixture.address);
    let pairs = [NAME, ("TargetName", TARGET), ("MaxBurstLength", "1024")];
    initiator.login(TO_FULL_FEATURE, &pairs).unwrap();
    initiator.terms = terms;
    let cdb = Cdb::new(&cdb::WRITE_10).with("TRANSFER LENGTH", 4);
    let header = initiator.header(cdb.bytes(), 2048, true);
    initiator.send(header, &[1; 2048]).unwrap();
    assert!(initiator.is_closed());
}

#[test]
fn numbers_may_be_hexadecimal() {
    let fixture = serve(ram());
    let mut initiator = connect(&fixture.address);
    let numbers = [("MaxBurstLength", "0x2000"), ("FirstBurstLength", "0X1000"), ("DefaultTime2Wait", "0x2")];
    let wrong = [("MaxConnections", "0x"), ("ErrorRecoveryLevel", "0x+1"), ("DefaultTime2Retain", "1f")];
    let pairs = [&[NAME, ("TargetName", TARGET)], &numbers[..], &wrong].concat();
    let answers = initiator.login(TO_FULL_FEATURE, &pairs).unwrap().1;
    for (key, wanted) in [("MaxBurstLength", "8192"), ("FirstBurstLength", "4096"), ("DefaultTime2Wait", "2")]
    {
        assert_eq!(value(&answers, key), wanted, "{key}");
    }
    for (key, _) in wrong {
        assert_eq!(value(&answers, key), "Reject", "{key}");
    }
}

#[test]
fn what_was_not_offered_is_not_chosen_and_refusals_are_not_answered() {
    let fixture = serve(ram());
    let pairs = [
        NAME,
        ("TargetName", TARGET),
        ("TaskReporting", "FastAbort"),
        ("TargetPortalGroupTag", "Irrelevant"),
    ];
    let (_, answers) = connect(&fixture.address).login(TO_FULL_FEATURE, &pairs).unwrap();
    assert_eq!(value(&answers, "TaskReporting"), "Reject");
    let of_group = answers.iter().filter(|(key, _)| key == "TargetPortalGroupTag").count();
    assert_eq!(of_group, 1);
}

#[test]
fn a_list_of_many_targets_comes_in_parts() {
    let mut server = Server::default();
    let mut expected = String::new();
    for number in 100..160 {
        let name = format!("disk-{number}");
        server.devices().add(Served::new(&name, ram()).unwrap()).unwrap();
        expected += &format!("TargetName=iqn.2026-11.localhost.platter:{name}\0TargetAddress=HERE,1\0");
    }
    let address = server.start("iscsi", "127.0.0.1:0", &Options::default()).unwrap();
    let mut initiator = connect(&address);
    let pairs = [
        NAME,
        ("SessionType", "Discovery"),
        ("HeaderDigest", "CRC32C,None"),
        ("MaxRecvDataSegmentLength", "512"),
    ];
    let (header, answers) = initiator.login(TO_FULL_FEATURE, &pairs).unwrap();
    assert_eq!((status(&header), value(&answers, "HeaderDigest")), (0, "None"));
    initiator.terms.max_receive = 512;
    let request = Header::new(opcode::TEXT, flag::FINAL).with(at::CMD_SN, 1).with(at::TRANSFER_TAG, !0);
    initiator.send(request, b"SendTargets=All\0").unwrap();
    let (mut list, mut units) = (Vec::new(), 0);
    loop {
        let (header, data) = initiator.receive().unwrap();
        list.extend(data);
        units += 1;
        let tag = header.get(at::TRANSFER_TAG);
        if header.is_final() {
            assert_eq!((header.flags() & flag::CONTINUE, tag), (0, !0));
            break;
        }
        assert_eq!(header.flags(), flag::CONTINUE);
        let more =
            Header::new(opcode::TEXT, flag::FINAL).with(at::CMD_SN, 1 + units).with(at::TRANSFER_TAG, tag);
        initiator.send(more, &[]).unwrap();
    }
    assert_eq!(String::from_utf8(list).unwrap(), expected.replace("HERE", &address));
    assert!(units > 8, "{units}");
    let more = Header::new(opcode::TEXT, flag::FINAL).with(at::TRANSFER_TAG, 1);
    initiator.send(more, &[]).unwrap();
    assert!(initiator.is_closed(), "there is no rest");
    server.stop(Duration::from_secs(60)).unwrap();
}

/// The earlier session of a port makes room for the later one, also where as many clients are connected as allowed.
#[test]
fn a_port_comes_back_although_the_server_is_full() {
    let mut server = Server::new(1);
    server.devices().add(Served::new("disk", ram()).unwrap()).unwrap();
    let address = server.start("iscsi", "127.0.0.1:0", &Options::default()).unwrap();
    let mut old = attach(&address, &Terms::default());
    let mut stranger = connect(&address);
    let (refused, _) = stranger.log_in(&Terms { isid: 2, ..Terms::default() }).unwrap();
    assert_eq!(refused, 0x0302);
    let mut new = attach(&address, &Terms::default());
    assert!(old.is_closed());
    assert_eq!(new.command(&Cdb::new(&cdb::TEST_UNIT_READY), 0, &[]).unwrap().status, 0);
    server.stop(Duration::from_secs(60)).unwrap();
}
