//! The network of com-sockets: the mapping between domains and addresses.

/// The network of all domains of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its address, with zeros in the host bits.
    pub address: u32,
    /// The number of leading bits that belong to the network.
    pub bits: u8,
}

impl Network {
    /// 192.168.0.0 with 253 domains, as in the paper of com-sockets.
    pub const DEFAULT: Self = Self { address: 0xc0a8_0000, bits: 24 };

    /// Parses `A.B.C.D/BITS` with 16 to 30 bits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits): (std::net::Ipv4Addr, u8) = (address.parse().ok()?, bits.parse().ok()?);
        let network = Self { address: u32::from(address), bits };
        ((16..=30).contains(&bits) && network.address & network.host_mask() == 0).then_some(network)
    }

    fn host_mask(self) -> u32 {
        u32::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0)
    }

    /// The highest domain.
    pub(crate) fn last(self) -> u32 {
        self.host_mask() - 3
    }

    pub(crate) fn address_of(self, domain: u32) -> u32 {
        self.address + domain + 2
    }

    pub(crate) fn broadcast(self) -> u32 {
        self.address + self.host_mask()
    }

    pub(crate) fn domain_of(self, address: u32) -> Option<u32> {
        let domain = address.checked_sub(self.address)?.checked_sub(2)?;
        (domain <= self.last()).then_some(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_paper() {
        let network = Network::DEFAULT;
        assert_eq!(network.address_of(3), u32::from(std::net::Ipv4Addr::new(192, 168, 0, 5)));
        assert_eq!(network.broadcast(), u32::from(std::net::Ipv4Addr::new(192, 168, 0, 255)));
        assert_eq!((network.domain_of(network.address_of(252)), network.last()), (Some(252), 252));
        assert_eq!(network.domain_of(network.broadcast()), None);
        assert_eq!((network.domain_of(network.address + 1), network.domain_of(0)), (None, None));
    }

    #[test]
    fn a_network_is_written_as_usual() {
        assert_eq!(Network::parse("192.168.0.0/24"), Some(Network::DEFAULT));
        let wide = Network::parse("10.7.0.0/16").unwrap();
        assert_eq!((wide.last(), wide.domain_of(wide.address_of(65_532))), (65_532, Some(65_532)));
        for wrong in
            ["", "10.0.0.0", "10.0.0.0/31", "10.0.0.0/15", "10.0.0.1/24", "x/24", "10.0.0.0/x"]
        {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
