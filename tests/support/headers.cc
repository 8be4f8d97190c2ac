// headers.cc -- the object that owns the precompiled headers of the tests.
