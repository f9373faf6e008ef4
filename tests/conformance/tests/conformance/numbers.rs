//! Limits and numbers.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{ANY, Address, CLOCK, Code, HARDWARE, Message, NONE, SELF, SYSTEM, Timeout};
use m3ipc_abi::{GENERATION_SIZE, LARGE_MAX_BYTES, SYSTEM_SLOTS};

rows! {
    fn an_endpoint_is_generation_times_g_plus_slot() {
        assert_eq!(GENERATION_SIZE, 35 + 35_535);
        for (generation, slot) in [(0, -35), (0, 34), (2, 29), (7, -1), (9, 220)] {
            let address = Address::new(generation, slot);
            assert_eq!(address.0, generation * GENERATION_SIZE + slot);
            assert_eq!((address.generation(), address.slot()), (generation, slot));
        }
    }

    fn any_none_and_self_have_their_numbers() {
        assert_eq!([ANY, NONE, SELF].map(|address| address.0), [31_438, 27_342, 35_534]);
        assert_eq!([HARDWARE, SYSTEM, CLOCK].map(|address| address.0), [-1, -2, -35]);
    }

    fn a_system_slot_always_has_its_number() {
        let mut fixture = Fixture::new();
        for _ in 0..2 {
            assert_eq!(fixture.dead(SYSTEM_SLOTS - 1), Address(SYSTEM_SLOTS - 1));
            assert_eq!(fixture.dead(-2), SYSTEM);
        }
    }

    fn the_generation_of_a_user_slot_rises_with_each_life() {
        let mut fixture = Fixture::new();
        let lives = [(); 3].map(|()| fixture.dead(29).generation());
        assert_eq!(lives, [1, 2, 3]);
    }

    fn a_message_has_48_bytes() {
        assert_eq!((size_of::<Message>(), align_of::<Message>()), (48, 8));
        assert_eq!(Message::new(3).payload.len(), 40);
    }

    fn a_timeout_is_milliseconds_with_0_now_and_minus_1_for_ever() {
        assert_eq!(Timeout::from_ms(0), Timeout::NoWait);
        assert_eq!(Timeout::from_ms(-1), Timeout::Never);
        assert_eq!(Timeout::from_ms(5), Timeout::After(std::time::Duration::from_millis(5)));
    }

    fn a_payload_that_is_longer_than_any_is_refused_with_73() {
        let mut fixture = Fixture::new();
        let peer = fixture.dead(30);
        let long = vec![0; LARGE_MAX_BYTES + 1];
        let error =
            fixture.me.send_long(peer, &Message::new(0), &long, Timeout::NoWait).unwrap_err();
        assert_eq!(error.code(), Code::MsgSize);
    }

    fn codes_have_their_numbers_and_names() {
        let known = [
            (-1, "PERM"),
            (-3, "SRCH"),
            (-4, "INTR"),
            (-11, "AGAIN"),
            (-12, "NOMEM"),
            (-14, "FAULT"),
            (-16, "BUSY"),
            (-22, "INVAL"),
            (-34, "RANGE"),
            (-38, "NOSYS"),
            (-61, "TIMEDOUT"),
            (-64, "NOTCONN"),
            (-65, "SHUTDOWN"),
            (-71, "ADDRNOTAVAIL"),
            (-73, "MSGSIZE"),
            (-101, "LOCKED"),
            (-102, "BADCALL"),
            (-103, "BADSRCDST"),
            (-104, "CALLDENIED"),
            (-105, "DEADSRCDST"),
            (-106, "NOTREADY"),
            (-107, "BADREQUEST"),
            (-108, "SRCDIED"),
            (-109, "DSTDIED"),
            (-110, "TRAPDENIED"),
            (-201, "DONTREPLY"),
            (-300, "ERRCODE"),
            (-301, "BADNODEID"),
            (-302, "BADVMID"),
            (-303, "VMNOTRUN"),
            (-304, "BADPROC"),
            (-305, "BADPID"),
            (-306, "ENDPOINT"),
            (-307, "NOPROXY"),
            (-308, "RMTPROC"),
            (-309, "LCLPROC"),
            (-310, "NOTBIND"),
            (-315, "NODEBUSY"),
            (-316, "NONODE"),
            (-317, "DRVSBUSY"),
            (-318, "DRVSINIT"),
            (-319, "NOVMNODE"),
            (-320, "PROCRUN"),
            (-321, "NOMSG"),
            (-323, "VMRUN"),
            (-324, "PROCSTS"),
            (-325, "NODEFREE"),
            (-326, "VMNODE"),
            (-327, "BADPROXY"),
            (-328, "ONCOPY"),
            (-329, "ENQUEUED"),
            (-330, "OVERRUN"),
            (-331, "BADOWNER"),
            (-332, "MIGRATE"),
            (-333, "PROXYFREE"),
            (-334, "GRPLEADER"),
            (-335, "PRIVILEGES"),
            (-336, "BINDTYPE"),
            (-337, "SLOTUSED"),
            (-338, "BADRANGE"),
            (-339, "BADVALUE"),
            (-340, "BADDIR"),
            (-341, "BADFILE"),
            (-342, "RSCBUSY"),
            (-343, "NAMESIZE"),
            (-344, "ALLOCMEM"),
            (-345, "PROXYID"),
            (-346, "REPLPROC"),
            (-347, "ALIGN"),
            (-348, "WOKENUP"),
            (-500, "PEERBROKE"),
            (-501, "UNKNOWN"),
            (-502, "VERSION"),
            (-503, "NOPAYLOAD"),
            (-504, "ORPHANED"),
            (-505, "ANSWERLOST"),
        ];
        for (number, name) in known {
            assert_eq!(Code::from_number(number).map(Code::name), Some(name), "{number}");
        }
        assert_eq!(Code::ALL.len(), known.len());
    }
}
