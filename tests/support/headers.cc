// headers.cc -- the object file for the precompiled headers of the tests.
