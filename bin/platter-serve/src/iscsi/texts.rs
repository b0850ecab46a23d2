//! Answers to text requests, in as many units as they need (RFC 7143, sections 11.10 and 11.11).

use platter_remote::iscsi::wire::{Header, NO_TAG, at, flag, opcode};

/// What is left of the answer to a text request. The initiator asks for it by a request with this Target Transfer Tag.
#[derive(Default)]
pub(super) struct Texts {
    rest: Vec<u8>,
    tag: u32,
}

impl Texts {
    /// Whether a request asks for the rest of an answer.
    pub(super) fn is_continued_by(&self, header: &Header) -> bool {
        header.get(at::TRANSFER_TAG) != NO_TAG
    }

    /// The first unit of an answer, of at most `most` bytes.
    pub(super) fn begin(&mut self, answer: Vec<u8>, most: u32) -> (Header, Vec<u8>) {
        self.rest = answer;
        self.unit(most)
    }

    /// The next unit of an answer. `None`: the request does not belong to it, and nothing of it is kept.
    pub(super) fn go_on(&mut self, header: &Header, most: u32) -> Option<(Header, Vec<u8>)> {
        let belongs = !self.rest.is_empty() && header.get(at::TRANSFER_TAG) == self.tag;
        if !belongs || header.data_bytes() > 0 {
            self.rest.clear();
            return None;
        }
        Some(self.unit(most))
    }

    fn unit(&mut self, most: u32) -> (Header, Vec<u8>) {
        let length = self.rest.len().min(most as usize);
        let later = self.rest.split_off(length);
        let now = std::mem::replace(&mut self.rest, later);
        let header = match self.rest.is_empty() {
            true => Header::new(opcode::TEXT_RESPONSE, flag::FINAL).with(at::TRANSFER_TAG, NO_TAG),
            false => {
                // Never the tag that names nothing.
                self.tag = self.tag.wrapping_add(1) & 0xffff;
                Header::new(opcode::TEXT_RESPONSE, flag::CONTINUE).with(at::TRANSFER_TAG, self.tag)
            }
        };
        (header, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(tag: u32) -> Header {
        Header::new(opcode::TEXT, flag::FINAL).with(at::TRANSFER_TAG, tag)
    }

    #[test]
    fn an_answer_arrives_whole_in_units_of_any_length() {
        let answer: Vec<u8> = (0..1000u32).map(|n| n as u8).collect();
        for most in [512, 999, 1000, 1001] {
            let mut texts = Texts::default();
            let (mut header, mut got) = texts.begin(answer.clone(), most);
            while !header.is_final() {
                assert_eq!((header.flags(), got.len() % most as usize), (flag::CONTINUE, 0));
                let (next, more) = texts.go_on(&request(header.get(at::TRANSFER_TAG)), most).unwrap();
                (header, got) = (next, [got, more].concat());
            }
            assert!(got == answer && header.get(at::TRANSFER_TAG) == NO_TAG, "{most}");
            assert!(texts.go_on(&request(1), most).is_none(), "nothing is left");
        }
    }

    #[test]
    fn another_tag_gets_nothing_and_ends_the_answer() {
        let mut texts = Texts::default();
        let (header, _) = texts.begin(vec![7; 1000], 512);
        let tag = header.get(at::TRANSFER_TAG);
        assert!(texts.is_continued_by(&request(tag)) && !texts.is_continued_by(&request(NO_TAG)));
        assert!(texts.go_on(&request(tag + 1), 512).is_none());
        assert!(texts.go_on(&request(tag), 512).is_none());
        let (header, _) = texts.begin(vec![7; 1000], 512);
        let with_data = request(header.get(at::TRANSFER_TAG)).with_data_bytes(4);
        assert!(texts.go_on(&with_data, 512).is_none());
    }
}
