use super::*;

#[test]
fn the_table_is_in_the_order_of_the_formats() {
    for row in TABLE {
        assert_eq!(row.format.row().name, row.name);
        assert_eq!(Format::by_name(row.name), Some(row.format));
    }
    assert_eq!(Format::by_name("xml"), None);
}

#[test]
fn what_is_in_doubt_is_not_detected() {
    for text in ["", "\n\n", "0 0 4096 4096\n", "1,2,3,4,5\n", "1,2,3\n", "hello\n", "\u{7f}ELF"] {
        assert_eq!(Format::detect(text.as_bytes()), None, "{text}");
    }
}
