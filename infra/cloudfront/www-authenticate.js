// A CloudFront function for viewer responses: gives WWW-Authenticate its name back, which function URLs and REST APIs
// take from answers of the function. Runtime cloudfront-js-2.0.
function handler(event) {
  var headers = event.response.headers;
  var challenge = headers["x-longhaul-www-authenticate"];
  if (challenge) {
    headers["www-authenticate"] = challenge;
    delete headers["x-longhaul-www-authenticate"];
    delete headers["x-amzn-remapped-www-authenticate"];
  }
  return event.response;
}
