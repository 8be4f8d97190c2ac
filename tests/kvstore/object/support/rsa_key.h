// rsa_key.h -- a key for tests of signatures.
#pragma once

#include <string_view>

namespace cairn::object::testing {

// Made for tests; guards nothing.
inline constexpr std::string_view kRsaKey = R"(-----BEGIN PRIVATE KEY-----
MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAKFynSCIfRmC44IH
zlMgl9aLgi5g3HWZmlilxb2bCg302tzotv8l8obzynfh17ZipeRK5D/mpEq3cpJt
8AmilL1QlOigZqcId/CNNR+S/SCg38fFMDCkxuqkrtjw8PcFyrxqs/+6EqIqY0Ge
+cH5k0mRiPSTEw+NmnTXneI4AfFBAgMBAAECgYEAm0MQHONl+4zGopxDLepgW3Ga
5mM8YNQxfSMfQbLCPp3FhUFAC6xAysvVYOkOfFXuV9g2HcX/JeO6CVw0xe9Wvhpw
jRaxoYEDHirk8bZbwSNBt/d5nhJVVyOXzK/bE2DQMnohnSJBEgFVsmWsv7hurkxf
usu7Oz+1+62rAbaQG4ECQQDR7QCk0JO3gT0s8g/N9JqoUf/Y8vSi6u6dGuS/z6vZ
VUoCq4eTOSS6l5LeNTwSG3yqHSLZpRFHWwn/A0abl3X5AkEAxOHMDokmY0/7lCzy
VRuqJkMURaANVlK2qHqZUHKXBkNgLwmNgmLFKq5VQeuuccVrMmC3tN9IDKVrj/nT
1AoHiQJBAJIvnxEnBpb1cuqHrqXXvpOUdrxXhDCntX7GKaHBNoTkNePiG0lUs9UU
lHwVSj250niMTaaOope0OCPT3imfsdECQGWDQtJv1tI4CDBjaGOHixiFV6t6lcXf
ifyekfRP0RzSmoJGO6dxw9V4487EdUKGFvp3seDZi22x0R8AIj9fGHkCQHwqyVfF
dfYu+yvIG6XIpWv9oIFvKUQbXhCvhrsLMwTEjzfjIDjc8dqQViJq6IBMEpgOTTM4
HUmUtegcNxoK+Us=
-----END PRIVATE KEY-----
)";

}  // namespace cairn::object::testing
