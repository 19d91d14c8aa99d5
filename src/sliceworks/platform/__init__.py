"""Documents and twins as `env`, `models`, `rehearse` and `console` use them.

loader            documents of a folder as cluster objects, in apply order
compiler          cluster objects of a Sliceworks document
references        names that documents define and refer to
validation        every problem of a folder
capacity          whether GPU pools have machines for all model servers
document_set      documents by kind, for a rehearsal
cluster_contents  what an environment's cluster contains, applied and removed
installation      versions in a cluster, and checks of what is installed
repairs           commands that repair an installation
controller_host   the Sliceworks controllers inside a twin's process
twin_home         folder, lock and settings of each twin
twin_process      start, stop and reset of twins
twin_clock        the clock of a running twin
image_map         programs of this machine that a twin runs instead of images
twin_exposure     addresses of Services outside of a running twin
"""
