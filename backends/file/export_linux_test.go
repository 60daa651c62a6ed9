package file

var NetworkMagic = networkMagic
