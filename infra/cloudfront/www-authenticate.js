// A Lambda@Edge function for origin responses: gives WWW-Authenticate its name back, which function URLs and REST APIs
// take from answers of the function. Viewer responses will not do: CloudFront runs nothing on those to which the origin
// gave status 400 or higher. Runtime: Node.js.
exports.handler = async (event) => {
  const { response } = event.Records[0].cf;
  const challenge = response.headers['x-longhaul-www-authenticate'];
  if (challenge) {
    response.headers['www-authenticate'] = [{ key: 'WWW-Authenticate', value: challenge[0].value }];
    delete response.headers['x-longhaul-www-authenticate'];
  }
  return response;
};
