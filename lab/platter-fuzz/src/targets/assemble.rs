//! Several devices with records or superblocks of arrays, opened as an array.

use super::{hold, md, record};
use crate::bytes;
use crate::image::{Image, ImageDisk};
use crate::rng::Rng;
use crate::run::{Target, Verdict, check_message};
use platter::raid::{self, Held, MdOptions, RaidError};
use platter_disk::device::Device;
use platter_md::superblock::{Place, SUPERBLOCK_BYTES};
use platter_stack::array_metadata::{
    Layout, NewArray, RECORD_BYTES, SLOTS, Select, Slots, Step, Uuid, commit_plan, create_plan,
};
use std::sync::Arc;

pub(super) const TARGET: Target = Target {
    name: "assemble",
    summary: "arrays of devices that carry records of Platter's or superblocks of md",
    generate: |rng| encode(&sound(rng)),
    mutate,
    read,
    memory: 32 << 20,
};

const MOST_DEVICES: usize = 8;

/// Images one after the other, each behind its length in four bytes.
fn encode(images: &[Image]) -> Vec<u8> {
    let mut out = Vec::new();
    for image in images {
        let bytes = image.encode();
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend(bytes);
    }
    out
}

fn decode(input: &[u8]) -> Vec<Image> {
    let mut images = Vec::new();
    let mut rest = input;
    while rest.len() > 4 && images.len() < MOST_DEVICES {
        let end = 4 + (bytes::u32_at(rest, 0) as usize).min(rest.len() - 4);
        images.push(Image::decode(&rest[4..end]));
        rest = &rest[end..];
    }
    images
}

fn apply(images: &mut [Image], steps: &[Step]) {
    for step in steps {
        if let Step::Write { device, offset, bytes } = step {
            images[*device].set(*offset, bytes.clone());
        }
    }
}

fn slots_of(image: &Image) -> Slots {
    let [first, second] = SLOTS.map(|at| image.bytes(at, RECORD_BYTES));
    Slots::decode([&first, &second])
}

fn sound(rng: &mut Rng) -> Vec<Image> {
    let count = rng.range(1, 4);
    let mut images: Vec<Image> =
        (0..count).map(|_| Image::new(512 << rng.below(2), (4 << 20) + (rng.below(8) << 18))).collect();
    if rng.one_in(3) {
        let place = *rng.pick(&Place::ALL);
        let same = rng.any();
        for (index, image) in images.iter_mut().enumerate() {
            // The same array on all of them, each with its own place in it.
            let mut sb = md::superblock(&mut Rng::of(same, "md", 0), index as u16);
            bytes::overwrite(&mut sb, 0x5c, &(count as u32).to_le_bytes());
            if let Some(at) = place.offset(image.size) {
                bytes::overwrite(&mut sb, 0x90, &(at / 512).to_le_bytes());
                md::mend(&mut sb);
                image.set(at, sb);
            }
        }
    } else {
        let layout = *rng.pick(&[Layout::Raid0, Layout::Concat]);
        let members =
            images.iter().zip(0u8..).map(|(image, place)| (Uuid([place; 16]), image.size)).collect();
        let chunk = if layout == Layout::Raid0 { 4096 << rng.below(5) } else { 0 };
        let array = NewArray { array: record::uuid(rng), name: "data".into(), layout, chunk, members };
        let slots: Vec<Slots> = images.iter().map(slots_of).collect();
        let mut steps = create_plan(&array, &slots).unwrap_or_default();
        // Sometimes the change is interrupted.
        if rng.one_in(4) {
            steps.truncate(rng.index(steps.len() + 1));
        }
        apply(&mut images, &steps);
    }
    if rng.one_in(4) {
        images.reverse();
    }
    for image in &mut images {
        image.number = rng.below(2) as u16;
    }
    images
}

/// Changes a record or superblock of one of the devices, with its checksum.
fn change_member(rng: &mut Rng, image: &mut Image) {
    let [first, second] = SLOTS;
    let md_places = Place::ALL.into_iter().filter_map(|place| place.offset(image.size));
    let mut places: Vec<u64> = vec![first, second, first, second];
    places.extend(md_places);
    let at = *rng.pick(&places);
    let mut held = image.bytes(at, SUPERBLOCK_BYTES);
    if held.starts_with(b"platter array") {
        record::change_field(rng, &mut held);
        record::mend(&mut held);
    } else {
        md::change_field(rng, &mut held);
        md::mend(&mut held);
    }
    image.set(at, held);
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let mut images = decode(input);
    let others = decode(other);
    if images.is_empty() {
        images = sound(rng);
    }
    let at = rng.index(images.len());
    match rng.below(8) {
        0 => drop(images.remove(at)),
        1 if images.len() < MOST_DEVICES => {
            images.push(rng.pick(if others.is_empty() { &images } else { &others }).clone())
        }
        2 if !others.is_empty() => {
            let with = rng.pick(&others).clone();
            images[at].mutate(rng, &with);
        }
        3 => {
            // A turn of the array, on some of its members.
            let slots: Vec<Slots> = images.iter().map(slots_of).collect();
            let records: Vec<_> = slots.iter().filter_map(|slots| slots.newest().cloned()).collect();
            if records.len() == images.len() && records.iter().all(|record| record.sequence < 1 << 60) {
                let mut steps = commit_plan(&records, &slots).unwrap_or_default();
                steps.truncate(rng.index(steps.len() + 1));
                apply(&mut images, &steps);
            }
        }
        _ => change_member(rng, &mut images[at]),
    }
    *input = encode(&images);
}

/// Uses an opened array.
fn use_array(array: &Device, devices: &[Device]) -> Result<(), String> {
    let sum = devices.iter().map(Device::size).fold(0, u64::saturating_add);
    hold(array.size() > 0 && array.size() <= sum, || format!("{} bytes of {sum}", array.size()))?;
    let block = u64::from(array.geometry().limits.logical_block);
    let mut data = vec![0; block as usize];
    for at in [0, (array.size() / block).saturating_sub(1) * block] {
        array.read_at(&mut data, at).map_err(|error| format!("reading at {at}: {error}"))?;
    }
    Ok(())
}

/// Uses an array of md. What is bad on its members may be an error.
fn use_md(array: &Device, devices: &[Device]) -> Result<(), String> {
    let sum = devices.iter().map(Device::size).fold(0, u64::saturating_add);
    hold(array.size() <= sum, || format!("{} bytes of {sum}", array.size()))?;
    let block = u64::from(array.geometry().limits.logical_block);
    let mut data = vec![0; block as usize];
    for at in [0, (array.size() / block).saturating_sub(1) * block] {
        if let Err(error) = array.read_at(&mut data, at) {
            check_message(&error.to_string())?;
        }
    }
    Ok(())
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let images = decode(input);
    let write = images.first().is_some_and(|image| image.number % 2 == 1);
    let name = |at: usize| format!("disk{at}");
    let devices: Vec<Device> = images
        .into_iter()
        .enumerate()
        .map(|(at, image)| Device::new(Arc::new(ImageDisk::new(&name(at), image))))
        .collect();
    for device in &devices {
        if let Ok(Held::DamagedMd(_, what)) = raid::examine(device) {
            check_message(&what)?;
        }
    }
    let md = raid::assemble_md(&devices, &MdOptions { force: write, raid0_layout: None });
    match &md {
        Ok(array) => use_md(array, &devices)?,
        Err(error) => check_message(&error.to_string())?,
    }
    let told = |error: RaidError| Ok(Verdict::Refused(error.to_string()));
    let array = match raid::assemble(&Select::Any, &devices, write) {
        Ok(array) => array,
        Err(error) if md.is_err() => return told(error),
        Err(error) => return check_message(&error.to_string()).map(|()| Verdict::Accepted),
    };
    for device in &devices {
        let slots = raid::read_slots(device).map_err(|error| error.to_string())?;
        let of_all = slots.records().any(|record| record.members as usize == devices.len());
        hold(of_all, || format!("{slots:?} is on one of {} members", devices.len()))?;
    }
    use_array(&array, &devices)?;
    let size = array.size();
    drop(array);
    let again =
        raid::assemble(&Select::Any, &devices, write).map_err(|error| format!("opened again: {error}"))?;
    hold(again.size() == size, || format!("{size} bytes, and then {}", again.size()))?;
    Ok(Verdict::Accepted)
}
