//! Tables of what counts as personal data and what only looks like it. What counts is erased for good after a while, so
//! something ambiguous counts only if the words before it say what it is.

use super::personal;

#[test]
fn addresses_and_phone_numbers_count_by_format_or_context_word_m7_6_49() {
    let cases = [
        ("93.184.216.34", "ip_address"),
        ("connection from 93.184.216.34 closed", "ip_address"),
        ("93.184.216.34 - - [10/Oct/2024:13:55:36] \"GET /\"", "ip_address"),
        ("client_ip=93.184.216.34", "ip_address"),
        ("remoteAddr: 8.8.4.4, it said", "ip_address"),
        ("\"ip\": \"8.8.4.4\"", "ip_address"),
        ("ping 8.8.4.4", "ip_address"),
        ("8.8.4.4:53 answered", "ip_address"),
        ("allow 8.8.4.0/24", "ip_address"),
        ("http://8.8.4.4/x", "ip_address"),
        ("root@93.184.216.34", "ip_address"),
        ("inet6 2a02:8071:abcd::1", "ip_address"),
        ("ether 3c:22:fb:1a:2b:3d", "mac_address"),
        ("mac:3c:22:fb:1a:2b:3d", "mac_address"),
        ("+4930 12345678", "phone"),
        ("+447700 900123", "phone"),
        ("+1415 5552671", "phone"),
        ("+353 1 234 5678", "phone"),
        ("+7 916 123-45-67", "phone"),
        ("0171/2345678", "phone"),
        ("Tel. 0171 2345678", "phone"),
        ("my phone: 0815-123456", "phone"),
        ("phone no 0815 123456", "phone"),
        ("appelez le 06 12 34 56 78 de suite", "phone"),
        ("call +376 312 345", "phone"),
    ];
    for (text, wanted) in cases {
        assert_eq!(personal(text), [wanted], "{text}");
    }
}

#[test]
fn versions_sections_and_part_numbers_are_no_personal_data_m7_6_49() {
    let fine = [
        "See section 4.12.1.3 of the standard, and 4.12.1.35 of it",
        "Assembly version=1.0.0.0 but file version 2.1.0.0, Culture=neutral",
        "version 1.2.3.4, 8.8.4.4 build, build 93.184.216.34, OID 1.3.61.41",
        "Version: 93.184.216.34:2, from version 8.8.4.4:53 on",
        "upgrade from 2.1.0.0 to 2.1.0.45, Chrome/120.45.60.1, pkg@2.1.0.45",
        "§ 4.12.1.3, Chapter 2.31.4.1, kernel 5.15.0.91",
        "@@ -12,7 +12,8 @@ moved by +100 200 300",
        "took +120 1234 5678 ms, +250 130 270, +49 100 200 300, +445 200 3000",
        "+999 12 345 678 and +28 123 456 789",
        "part no 0815 123456 is broken, part 0815-123456, order 0815/123456",
        "0123 45678, 02345-67890",
        "00 01 02 03 04 05 06 07, ff 06 12 34 56 78 9a, 01 02 03 04 05",
        "ff:ff:ff:ff:ff:ff, 00:00:00:00:00:00, 01:00:5e:7f:ff:fa, 00:11:22:33:44:55, aa:bb:cc:dd:ee:ff",
        "SHA1 1a:2b:3c:4d:5e:6f:7a:8b:9c:ad:be:cf, 10-20-30-40-50-60",
    ];
    for text in fine {
        assert_eq!(personal(text), [""; 0], "{text}");
    }
}
